"""Jobs in a session of Spark that the program has made itself: it is as it was, whatever the jobs did."""

from __future__ import annotations

import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, JobGraphError, PystateError
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import EmbeddedExecutor
from pystate.runtime.spark.sessions import session as own_sessions
from tests.engines import on_micro_batch, slowly_on_real_time
from tests.waiting import wait_until

LONG, TEXT = Types.LONG(), Types.STRING()
NUMBERS = list(range(20))


@pytest.fixture
def present(spark: Any, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The session of the tests, as one that the program has made, and that has run queries."""
    monkeypatch.setattr(own_sessions, "_OWN", weakref.WeakSet())
    home = PystateHome(tmp_path / "home")
    executor = EmbeddedExecutor(home, Configuration({"parallelism.default": "1", "execution.engine": engine}))
    register_executor(executor)
    yield spark
    executor._jobs.cancel_all()
    register_executor(None)


def all_of(spark: Any) -> dict[str, Any]:
    """What jobs must leave as it is."""
    settings = {row.key: row.value for row in spark.sql("SET").collect()}
    context = spark.sparkContext
    spark._jsparkSession.streams()  # its own listener is there from now on
    workers = (context.pythonExec, list(context._python_includes), dict(context.environment))
    listeners = [one.getClass().getName() for one in context._jsc.sc().listenerBus().listeners()]
    named = (spark.getActiveSession() is spark, [view.name for view in spark.catalog.listTables()])
    return {
        "settings": settings,
        "workers": workers,
        "named": named,
        "environment": dict(os.environ),
        "path": list(sys.path),
        "followed": sum(name.endswith("StreamingQueryListenerBus") for name in listeners),
    }


def counted(env: StreamExecutionEnvironment) -> Any:
    return (
        env.from_collection(NUMBERS, LONG)
        .map(lambda n: (n % 4, 1), Types.TUPLE([LONG, LONG]))
        .key_by(lambda pair: pair[0])
        .sum(1)
    )


@slowly_on_real_time
def test_one_job_after_the_other_leaves_the_session_as_it_was(present):
    before = all_of(present)
    for given in ([present], []):
        env = StreamExecutionEnvironment.get_execution_environment(*given)
        assert env.spark is present
        with counted(env).execute_and_collect("counts") as results:
            assert sorted(results)[-1] == (3, 5)
    assert all_of(present) == before
    assert present.range(3).count() == 3


@on_micro_batch
def test_a_job_that_fails_and_one_that_is_cancelled_leave_it_as_it_was(present, tmp_path):
    before = all_of(present)
    env = StreamExecutionEnvironment.get_execution_environment(present)
    env.from_collection(NUMBERS, LONG).key_by(lambda n: n).map(lambda n: 1 // (n - n), LONG).print()
    with pytest.raises(PystateError, match="ZeroDivisionError|division"):
        env.execute("fails")

    begun = tmp_path / "begun"
    env = StreamExecutionEnvironment.get_execution_environment(present)
    env.from_collection(NUMBERS, LONG).key_by(lambda n: n).map(waits_for(tmp_path / "never", says=begun), LONG).print()
    job = env.execute_async("cancelled")
    wait_until(begun.exists)
    assert present.range(3).count() == 3, "cells run while it goes on"
    job.cancel()
    with pytest.raises(PystateError):
        job.get_job_execution_result().result()
    assert job.get_job_status().result() is JobStatus.CANCELED
    assert all_of(present) == before


@slowly_on_real_time
def test_two_jobs_run_at_the_same_time(present, tmp_path):
    before = all_of(present)
    first, second = tmp_path / "first", tmp_path / "second"
    jobs = []
    for says, hears in ((first, second), (second, first)):
        env = StreamExecutionEnvironment.get_execution_environment(present)
        env.from_collection([1], LONG).key_by(lambda n: n).map(waits_for(hears, says=says), LONG).print()
        jobs.append(env.execute_async(says.name))
    for job in jobs:
        job.get_job_execution_result().result()
    assert all_of(present) == before


@on_micro_batch
def test_settings_views_and_streams_of_the_program_are_those_of_its_session(present, tmp_path):
    """What would be refused in a session of ours is set in the job's alone."""
    mine = present.newSession()
    mine.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    mine.createDataFrame([(1, "one"), (2, "two")], "n long, name string").createOrReplaceTempView("names")
    before, active = all_of(mine), present.getActiveSession()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "numbers.txt").write_text("1\n2\n")
    frame = mine.readStream.text(str(tmp_path / "in")).selectExpr("cast(value as long) n", "current_timezone() zone")
    seen = []

    def batch(rows: Any, _: int) -> None:
        session = rows.sparkSession
        session.createDataFrame([(1,)], "n long").count()
        seen.extend((row.zone, row.name) for row in rows.collect())
        seen.append(session.conf.get("spark.sql.streaming.minBatchesToRetain"))

    env = StreamExecutionEnvironment.get_execution_environment(mine)
    env.from_data_frame(frame.join(mine.table("names"), "n"), "numbers", bounded=True).for_each_batch(batch)
    other = (
        mine.readStream.format("rate")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "other"))
    )
    query = other.start()
    try:
        env.execute("joined")
        assert query.isActive, "queries of the program are its own"
    finally:
        query.stop()

    assert seen == [("Asia/Tokyo", "one"), ("Asia/Tokyo", "two"), "10"]
    assert all_of(mine) == before
    assert present.getActiveSession() is active


@on_micro_batch
def test_what_the_application_lacks_is_told_at_once_and_the_job_has_failed(present, monkeypatch, tmp_path):
    conf = present.sparkContext.getConf()
    conf.set("spark.speculation", "true").set("spark.ui.retainedTasks", "100")
    monkeypatch.setattr(present.sparkContext, "getConf", lambda: conf)
    env = StreamExecutionEnvironment.get_execution_environment(present)
    counted(env).print()
    with pytest.raises(ConfigurationError) as caught:
        env.execute("refused")
    assert [row[:2] for row in caught.value.table] == [("spark.speculation", "true"), ("spark.ui.retainedTasks", "100")]
    assert "spark.speculation false\n" in str(caught.value)
    assert '.config("spark.ui.retainedTasks", "10000")' in str(caught.value)
    (status,) = (tmp_path / "home" / "jobs").glob("*/status.json")
    assert '"FAILED"' in status.read_text()


def test_what_is_no_session_is_refused():
    with pytest.raises(JobGraphError, match="takes a Configuration or a SparkSession, not 4"):
        StreamExecutionEnvironment.get_execution_environment(4)


def waits_for(path: Path, says: Path) -> Any:
    def wait(value: int) -> int:
        says.touch()
        while not path.exists():
            time.sleep(0.02)
        return value

    return wait
