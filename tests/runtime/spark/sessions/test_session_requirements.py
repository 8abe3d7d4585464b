"""What an application must have been started with: one by one, and all at once."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.runtime.spark.sessions.real_time_settings import application_settings
from pystate.runtime.spark.sessions.session import session_settings, settings_of_job
from pystate.runtime.spark.sessions.session_requirements import missing, refusal, requirements

MICRO_BATCH, REAL_TIME = ExecutionEngine.MICRO_BATCH, ExecutionEngine.REAL_TIME
PIPELINED = "spark.python.udf.pipelined.enabled"
PLAIN = {"spark.master": "local[*]", "spark.app.name": "pyspark-shell"}


def grave(settings, parallelism=1, engine=MICRO_BATCH):
    return {one.requirement.key: one.found for one in missing(parallelism, engine, settings.get) if one.requirement.grave}


@pytest.mark.parametrize("engine", [MICRO_BATCH, REAL_TIME])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_session_of_ours_lacks_nothing(engine, parallelism):
    options = {"execution.engine": engine.value, "parallelism.default": str(parallelism)}
    assert missing(parallelism, engine, session_settings(Configuration(options)).get) == []


@pytest.mark.parametrize("engine", [MICRO_BATCH, REAL_TIME])
def test_what_the_lines_say_is_all_that_is_needed(engine):
    """Each value that is asked for fits; a session that is started anew with the lines lacks nothing."""
    assert [one.key for one in requirements(2, engine) if not one.fits(one.value)] == []
    settings = {**PLAIN, "spark.master": "local[2]", "spark.speculation": "true", "spark.ui.retainedStages": "many"}
    settings |= {one.requirement.key: one.requirement.value for one in missing(2, engine, settings.get)}
    assert missing(2, engine, settings.get) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "local"),
        ("spark.master", "local[3]"),
        ("spark.master", "local[3,4]"),
        ("spark.task.cpus", "2"),
        ("spark.dynamicAllocation.enabled", "TRUE"),
        ("spark.speculation", "true"),
        ("spark.python.worker.killOnIdleTimeout", "true"),
        ("spark.ui.retainedStages", "99"),
        ("spark.ui.retainedTasks", "1k"),
        ("spark.scheduler.listenerbus.eventqueue.appStatus.capacity", "100"),
    ],
)
def test_jobs_do_not_run_without_what_would_cost_state(key, value):
    assert grave({"spark.master": "local[4]", key: value}) == {key: value}


def test_what_is_merely_slower_keeps_no_job_from_running():
    slow = {
        "spark.master": "local[8]",
        "spark.python.authenticate.socketTimeout": "2min",
        "spark.python.worker.reuse": "false",
    }
    assert grave(slow) == {}
    lacking = {one.requirement.key for one in missing(1, MICRO_BATCH, slow.get)}
    assert {*slow, "spark.executor.heartbeat.maxFailures", "spark.authenticate"} <= lacking
    patient = {**slow, "spark.python.authenticate.socketTimeout": "10m"}
    assert "spark.python.authenticate.socketTimeout" not in {o.requirement.key for o in missing(1, MICRO_BATCH, patient.get)}


def test_the_real_time_engine_asks_for_its_own_settings_and_fewer_cores():
    pipelined = {"spark.master": "local[2]", PIPELINED: "true"}
    assert grave(pipelined, engine=REAL_TIME) == {}
    lacking = {one.requirement.key for one in missing(1, REAL_TIME, pipelined.get)}
    assert set(application_settings()) <= lacking


@pytest.mark.parametrize("found", [None, "false"])
def test_the_real_time_engine_does_not_run_where_records_would_wait_for_the_end_of_a_task(found):
    """A job would be RUNNING, and nothing would ever come out; on the micro-batch engine it is merely slower."""
    settings = {"spark.master": "local[4]", **({} if found is None else {PIPELINED: found})}
    assert grave(settings, engine=REAL_TIME) == {PIPELINED: found}
    assert grave(settings) == {}
    assert f"{PIPELINED} true" in str(refusal(missing(1, REAL_TIME, settings.get)))


def test_a_cluster_is_asked_for_its_cores_later():
    assert grave({"spark.master": "spark://10.0.0.1:7077", "spark.task.cpus": "2"}, parallelism=50) == {}
    lacking = {one.requirement.key for one in missing(1, MICRO_BATCH, {"spark.master": "yarn"}.get)}
    assert not lacking & {"spark.master", "spark.executor.heartbeat.maxFailures", "spark.python.unix.domain.socket.enabled"}


def test_the_error_names_all_and_has_lines_to_paste():
    settings = {"spark.master": "local[2]", "spark.speculation": "true"}
    error = refusal(missing(1, MICRO_BATCH, settings.get))
    assert [row[:2] for row in error.table] == [("spark.master", "local[2]"), ("spark.speculation", "true")]
    assert "\n        spark.master local[4,4]\n        spark.speculation false\n" in str(error)
    cell = str(error).partition("the start of the program\n")[2]
    names: dict[str, object] = {}
    exec(compile("\n".join(line[8:] for line in cell.splitlines()).replace(".getOrCreate()", ""), "cell", "exec"), names)  # noqa: S102
    options = names["spark"]._options  # type: ignore[attr-defined]
    assert options["spark.master"] == "local[4,4]"
    assert options["spark.speculation"] == "false"


def test_what_a_job_sets_in_its_copy_can_be_set_at_any_time():
    options = {"parallelism.default": "3", "spark.sql.ansi.enabled": "false", "spark.executor.memory": "1g"}
    theirs = {"spark.sql.shuffle.partitions": "200", "spark.sql.streaming.minBatchesToRetain": "2"}
    settings = settings_of_job(Configuration(options), "local[8]", theirs.get)
    assert all(key.startswith("spark.sql.") for key in settings)
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.sql.streaming.minBatchesToRetain"] == "10"
    assert settings["spark.sql.ansi.enabled"] == "false"
    theirs = {"spark.sql.shuffle.partitions": "17", "spark.sql.streaming.minBatchesToRetain": "50"}
    kept = settings_of_job(Configuration({}), "yarn", theirs.get)
    assert not kept.keys() & {*theirs, "spark.sql.sources.parallelPartitionDiscovery.parallelism"}
