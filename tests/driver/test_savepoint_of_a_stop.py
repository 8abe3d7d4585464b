"""A savepoint behind which a job is to end is told of, whatever befalls the end."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.common.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ControlError
from pystate.common.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.driver.execution_failure_handler import ExecutionFailureHandler
from pystate.driver.job_master import JobMaster


class Attempt:
    def __init__(self) -> None:
        self.ended: list[Any] = []

    def end(self, end: Any) -> None:
        self.ended.append(end)
        message = "the slots can't be reached"
        raise ControlError(message)


def master(path: Any, attempt: Attempt) -> Any:
    """The parts of a job master that end a job behind a savepoint."""
    directory = JobDirectory(path)
    return SimpleNamespace(
        _failures=ExecutionFailureHandler(Configuration({"restart-strategy.type": "fixed-delay"}), directory),
        _directory=directory,
        _lock=threading.Lock(),
        _attempt=attempt,
        _stop_state=None,
        _say=print,
    )


@pytest.mark.parametrize("there", [True, False])
def test_a_savepoint_that_is_made_is_reported_though_the_stop_fails(tmp_path, there):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_result("the savepoint")
    folder = tmp_path if there else tmp_path / "gone"  # even where it can't be written down that the job has ended
    ending = master(folder, attempt)
    with pytest.raises(ControlError):
        JobMaster._end_behind(ending, made, JobStatus.FINISHED, outer)
    assert outer.result(0) == "the savepoint"
    assert len(attempt.ended) == 1
    assert ending._stop_state is JobStatus.FINISHED, "no attempt begins behind it"


def test_a_job_whose_savepoint_failed_goes_on(tmp_path):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_exception(CheckpointFailedError("no space"))
    going_on = master(tmp_path, attempt)
    JobMaster._end_behind(going_on, made, JobStatus.FINISHED, outer)
    assert isinstance(outer.exception(0), CheckpointFailedError)
    assert attempt.ended == []
    assert going_on._stop_state is None
