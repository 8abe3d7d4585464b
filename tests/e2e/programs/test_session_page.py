"""docs/session.md: what it shows is what is said, and its cells run in a session as PySpark makes it; one is interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.runtime.spark.sessions.session_requirements import missing, refusal
from tests.documents.page import DOCS, blocks

PAGE = list(blocks((DOCS / "session.md").read_text("utf-8")))

BEFORE = """
import json, os, pathlib, signal, sys, threading, time

os.environ.pop("PYSPARK_PYTHON", None)
home = pathlib.Path(os.environ["PYSTATE_HOME"])

def states():
    files = [json.loads(path.read_text()) for path in (home / "jobs").glob("*/status.json")]
    return {one["name"]: one["state"] for one in files}

def session_of(spark):
    context = spark.sparkContext
    settings = sorted((row.key, row.value) for row in spark.sql("SET").collect())
    workers = [context.pythonExec, list(context._python_includes)]
    spark._jsparkSession.streams()  # its own listener is there from now on
    listeners = [one.getClass().getName() for one in context._jsc.sc().listenerBus().listeners()]
    followed = sum(name.endswith("StreamingQueryListenerBus") for name in listeners)
    return [settings, workers, sorted(os.environ), spark.getActiveSession() is spark, followed, list(sys.path)]

def await_running(name):
    while states().get(name) != "RUNNING":
        time.sleep(0.1)

def say(**facts):
    print(json.dumps(facts), flush=True)
"""

AFTER_THE_FIRST = """
before = session_of(spark)
say(found=sorted(found), python=spark.sparkContext.pythonExec)
"""

INTERRUPTED = """
say(total=total, background=job.get_job_status().result().value)

def cell(name):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_data_frame(rate, "rate").key_by("value").map(lambda row: row.value).print()
    threading.Thread(target=lambda: (await_running(name), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
    try:
        env.execute(name)
    except KeyboardInterrupt:
        return states()[name]

say(interrupted=[cell("cell"), cell("again")], application=spark.range(3).count(), same=session_of(spark) == before)
spark.stop()
spark = SparkSession.builder.master("local[4,4]").getOrCreate()
env = StreamExecutionEnvironment.get_execution_environment()
say(again=[env.spark is spark, env.from_collection([1, 2], Types.LONG()).map(lambda n: n).execute_and_collect(limit=2)])
"""


def test_the_page_shows_what_is_said() -> None:
    (shown,) = (block.text for block in PAGE if block.language == "text")
    settings = {"spark.master": "local[2]", "spark.speculation": "true"}
    assert shown.strip() == str(refusal(missing(1, ExecutionEngine.MICRO_BATCH, settings.get)))


@pytest.mark.slow
def test_the_cells_of_the_page_run_and_leave_the_session_as_it_was(tmp_path: Path) -> None:
    first, second = (block.text for block in PAGE if block.language == "python")
    waits = 'await_running("in the background")\n'
    assert "job.cancel()" in second
    cells = second.replace("job.cancel()", f"{waits}job.cancel()\njob._result.exception()")
    program = tmp_path / "cells.py"
    program.write_text("\n".join([BEFORE, first, AFTER_THE_FIRST, cells, INTERRUPTED]))
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, str(program)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    said: dict[str, object] = {}
    for line in ended.stdout.splitlines():
        said.update(json.loads(line) if line.startswith("{") else {})
    assert said == {
        "found": [["be", 1], ["be", 2], ["not", 1], ["or", 1], ["to", 1], ["to", 2]],
        "python": "python3",
        "total": 1000,
        "background": "CANCELED",
        "interrupted": ["CANCELED", "CANCELED"],
        "application": 3,
        "same": True,
        "again": [True, [1, 2]],
    }
    assert "jobs run there, but not as well" in ended.stderr


@pytest.mark.slow
def test_doctor_looks_at_what_a_session_would_be_started_with(tmp_path: Path) -> None:
    lacking = missing(1, ExecutionEngine.MICRO_BATCH, {"spark.master": "local[1]"}.get)
    (tmp_path / "spark-defaults.conf").write_text("\n".join(one.line for one in lacking))
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "PYSTATE_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "pystate_cli", "doctor", "--target", "session", "--json"]
    for parallelism, status in ((1, "ok"), (2, "fail")):
        words = [*command, "-D", f"parallelism.default={parallelism}"]
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        (found,) = (one for one in json.loads(done.stdout)["checks"] if one["name"] == "session")
        assert found["status"] == status, done.stdout
