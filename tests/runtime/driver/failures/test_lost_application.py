"""A Spark application that is lost ends its driver, so that the next one starts another; how an attempt waits is shown."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import traceback
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, JobExecutionError, SparkLostError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.job_status import JobStatus
from pystate.runtime.driver import scheduler
from pystate.runtime.driver.__main__ import DriverExecutor
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.scheduler import Scheduler
from pystate.runtime.engines.micro_batch.driver.micro_batch_engine import MicroBatchEngine
from pystate.runtime.execution.execution_attempt import AttemptEnd, AttemptOutcome, ExecutionAttempt
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.spark import spark_resource_manager as resource_manager
from pystate.runtime.spark.sessions.jvm_end import describe_jvm_end, jvm_end

FAILED = JobExecutionError("Slot 0 was lost.")
REFUSED = JobExecutionError("ConnectionRefusedError: [Errno 111] Connection refused")
LOST = SparkLostError("The Spark master does not know the application.")


def scheduler_in(*, supervised=True, number=1, loss=None, **changes):
    """The parts of a scheduler that look after failures, in an application that is sound or lost."""
    parts = {
        "_supervised": supervised,
        "_number": number,
        "is_cancelled": False,
        "_resources": Mock(loss=Mock(return_value=loss)),
        "_say": Mock(),
        "_status": Mock(),
        "terminate": Mock(),
    }
    scheduler = SimpleNamespace(**{**parts, **changes})
    scheduler.check_resources = lambda error: Scheduler.check_resources(scheduler, error)  # type: ignore[arg-type]
    return scheduler


def test_a_failure_in_a_sound_application_is_for_the_restart_strategy():
    scheduler = scheduler_in()
    scheduler.check_resources(FAILED)
    scheduler._status.report_failure.assert_not_called()


@pytest.mark.parametrize(
    ("loss", "error", "words"),
    [
        ("is gone", FAILED, "is gone: Slot 0 was lost."),
        ("is gone (its JVM was killed: SIGKILL)", FAILED, r"is gone \(its JVM was killed: SIGKILL\): Slot 0 was lost."),
        ("is gone (its JVM was killed: SIGKILL)", REFUSED, r"is gone \(its JVM was killed: SIGKILL\)\.$"),
        (None, LOST, "does not know the application"),
    ],
)
def test_a_lost_application_ends_the_driver_without_a_last_word(loss, error, words):
    scheduler = scheduler_in(loss=loss)
    with pytest.raises(SparkLostError, match=words):
        scheduler.check_resources(error)
    (failure,) = scheduler._status.report_failure.call_args.args
    assert re.search(words, failure["message"])
    scheduler.terminate.assert_not_called()


def test_a_jvm_whose_heap_is_full_is_told_with_the_setting_to_raise():
    scheduler = scheduler_in(loss=f"is gone ({describe_jvm_end(52)})")
    with pytest.raises(SparkLostError, match=r"java\.lang\.OutOfMemoryError\)\.") as lost:
        scheduler.check_resources(REFUSED)
    assert lost.value.hint == "give Spark's JVM more memory: spark.driver.memory"


@pytest.mark.parametrize(
    ("exits", "told"), [("exit(3)", "ended with exit code 3"), ("import os; os.kill(os.getpid(), 9)", "killed: SIGKILL")]
)
def test_the_end_of_a_jvm_is_known_by_its_process(exits, told):
    process = subprocess.Popen([sys.executable, "-c", exits])
    assert jvm_end(Mock(sparkContext=Mock(_gateway=Mock(proc=process)))).endswith(told)
    assert jvm_end(Mock(sparkContext=Mock(_gateway=Mock(spec=[])))) is None


@pytest.mark.parametrize(
    ("alive", "forgotten", "loss"),
    [
        (True, False, None),
        (False, False, "is gone"),
        (True, True, "is not known to the Spark master any more (spark.deploy.recoveryMode)"),
        (False, True, "was ended in YARN (KILLED)"),
    ],
)
def test_an_application_is_lost_where_it_has_stopped_or_its_master_has_forgotten_it(monkeypatch, alive, forgotten, loss):
    monkeypatch.setattr(resource_manager, "is_alive", lambda _: alive)
    monkeypatch.setattr(resource_manager, "end_in_cluster", lambda _: loss if forgotten else None)
    spark = Mock(sparkContext=Mock(master="local[4]"))
    assert resource_manager.SparkResourceManager(spark).loss() == loss


def test_without_a_job_manager_nobody_would_start_another():
    scheduler = scheduler_in(supervised=False, loss="is gone")
    with pytest.raises(SparkLostError):
        scheduler.check_resources(FAILED)
    assert scheduler.terminate.call_args.args == (JobStatus.FAILED,)


def test_a_driver_that_takes_over_does_not_wait_in_an_application_that_is_lost():
    scheduler = scheduler_in(begin=Mock(), wait_for_restart=Mock(side_effect=AssertionError))
    master = Mock(_status=Mock(attempt=1), _scheduler=scheduler, _prepare=Mock(side_effect=LOST))
    with pytest.raises(SparkLostError):
        JobMaster._run(master)


@pytest.mark.parametrize("attempt", [0, 1])
def test_what_spark_raises_while_a_job_is_planned_may_be_its_end(attempt):
    scheduler = scheduler_in(loss="is gone", begin=Mock(), wait_for_restart=Mock(side_effect=AssertionError))
    broken = RuntimeError("Answer from Java side is empty")  # as py4j raises its own, in no class of ours
    master = Mock(_status=Mock(attempt=attempt), _scheduler=scheduler, _prepare=Mock(side_effect=broken))
    with pytest.raises(SparkLostError, match="Answer from Java side is empty"):
        JobMaster._run(master)


@pytest.mark.parametrize(("number", "states"), [(0, ["CREATED", "CREATED", "RUNNING"]), (3, ["RUNNING"])])
def test_an_attempt_after_a_failure_is_restarting_until_it_runs(tmp_path, monkeypatch, number, states):
    told = []

    class Attempt:
        def __init__(self, *_, **__):
            told.append("waits")

        def run(self, on_deploying, on_running):
            on_deploying()
            on_running()
            return AttemptEnd(AttemptOutcome.FINISHED)

    monkeypatch.setattr(scheduler, "ExecutionAttempt", Attempt)
    monkeypatch.setattr(scheduler.dataclasses, "replace", lambda *_, **__: None)
    job = Mock(configuration=Configuration({}))
    one = Mock(_number=number, _job=job, is_cancelled=False, _lock=Mock(__enter__=Mock(), __exit__=Mock()))
    one._starting_point.return_value = None
    one._create = lambda *arguments: Scheduler._create(one, *arguments)
    one._status.update.side_effect = lambda state: told.append(state.value)
    one._is_deploying = lambda: Scheduler._is_deploying(one)
    one._is_running = lambda: Scheduler._is_running(one)
    restore = Mock(**{"restored.return_value.checkpoint_id": None})
    Scheduler._run_attempt(one, None, restore, None, tmp_path)  # type: ignore[arg-type]
    assert told == ["waits", *states]


@pytest.mark.parametrize(
    ("state", "changes", "told"),
    [
        (JobStatus.RUNNING, {}, [JobStatus.RESTARTING]),
        (JobStatus.CREATED, {}, []),
        (JobStatus.RUNNING, {"is_cancelled": True}, []),
        (JobStatus.RUNNING, {"_end_state": JobStatus.FINISHED}, []),
        (JobStatus.RUNNING, {"_failures": Mock(restarts_at_all=False)}, []),
    ],
)
def test_a_job_says_restarting_while_its_failed_attempt_still_ends(state, changes, told):
    parts = {"is_cancelled": False, "_end_state": None, "_failures": Mock(restarts_at_all=True), **changes}
    one = Mock(_lock=Mock(__enter__=Mock(), __exit__=Mock()), _status=Mock(state=state), **parts)
    Scheduler._is_failing(one)
    assert [call.args[0] for call in one._status.update.call_args_list] == told


@pytest.mark.parametrize("outcome", AttemptOutcome)
def test_only_a_failure_of_an_attempt_is_told_at_once_and_once(outcome):
    attempt = Mock(_end=None, _ended=threading.Condition())
    for _ in range(2):
        ExecutionAttempt.end(attempt, AttemptEnd(outcome))
    assert attempt._on_failing.call_count == (outcome is AttemptOutcome.FAILED)


def test_an_application_that_is_gone_when_an_attempt_is_made_ends_that_and_not_the_program(monkeypatch, tmp_path):
    def refuses(*_, **__):
        message = "[Errno 111] Connection refused"
        raise ConnectionRefusedError(message)  # as py4j does where its JVM has died since the attempt before

    monkeypatch.setattr(scheduler, "ExecutionAttempt", refuses)
    monkeypatch.setattr(scheduler.dataclasses, "replace", lambda *_, **__: None)
    one = Mock(_number=3, _job=Mock(configuration=Configuration({})))
    one._starting_point.return_value = None
    one._create = lambda *arguments: Scheduler._create(one, *arguments)
    restore = Mock(**{"restored.return_value.checkpoint_id": None})
    end = Scheduler._run_attempt(one, None, restore, None, tmp_path)  # type: ignore[arg-type]
    assert end.outcome is AttemptOutcome.FAILED
    assert "Connection refused" in end.error.message
    with pytest.raises(SparkLostError, match="is gone: ConnectionRefusedError"):
        scheduler_in(loss="is gone").check_resources(end.error)


@pytest.fixture
def executor(tmp_path, monkeypatch):
    status = JobStatusStore(JobDirectory(tmp_path), "job")

    def refuse(*_):
        message = "No Spark master answers."
        raise JobExecutionError(message)

    monkeypatch.setattr(LocalExecutor, "spark_session", refuse)
    home, directory = PystateHome(tmp_path), JobDirectory(tmp_path)
    return DriverExecutor("a" * 32, Configuration(), home, directory, status, Mock(), None), status


def test_a_new_job_without_a_spark_fails(executor):
    driver, status = executor
    with pytest.raises(JobExecutionError, match="No Spark master answers") as caught:
        driver.spark_session(Configuration())
    assert not isinstance(caught.value, SparkLostError)
    assert status.snapshot()["failure"] is None


def test_a_job_that_has_run_goes_on_in_the_next_driver_where_there_is_no_spark(executor):
    driver, status = executor
    status.update(JobStatus.RESTARTING, attempt=3)
    with pytest.raises(SparkLostError, match="No Spark master answers"):
        driver.spark_session(Configuration())
    assert "No Spark master answers" in status.snapshot()["failures"][0]["message"]
    assert status.state is JobStatus.RESTARTING


def test_spark_is_given_a_line_of_what_an_epoch_fails_with():
    def fail(*_):
        try:
            raise ConfigurationError("the cause " * 10_000)
        except ConfigurationError as cause:
            message = "py4j.protocol.Py4JJavaError: " + "x" * 100_000 + "\n\tat org.apache" * 1000
            raise ValueError(message) from cause

    with pytest.raises(JobExecutionError) as caught:
        MicroBatchEngine._run_epoch(SimpleNamespace(_run_batch=fail), None, 0)  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert len(text) < 2500, "Spark's pattern takes several frames of its stack for each character"
    assert "org.apache" not in text
