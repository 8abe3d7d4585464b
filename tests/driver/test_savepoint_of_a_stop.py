"""A savepoint behind which a job is to end is told of, whatever befalls the end."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pystate.common.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ControlError
from pystate.common.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.driver.execution_failure_handler import ExecutionFailureHandler
from pystate.driver.scheduler import Scheduler
from pystate.driver.stop_with_savepoint import StopWithSavepoint


class Attempt:
    def __init__(self) -> None:
        self.ended: list[Any] = []

    def end(self, end: Any) -> None:
        self.ended.append(end)
        message = "the slots can't be reached"
        raise ControlError(message)


def ending_in(path: Any, attempt: Attempt) -> tuple[StopWithSavepoint, Any]:
    """The parts of a scheduler that end a job behind a savepoint."""
    directory = JobDirectory(path)
    scheduler: Any = SimpleNamespace(
        _failures=ExecutionFailureHandler(Configuration({"restart-strategy.type": "fixed-delay"}), directory),
        _job=SimpleNamespace(directory=directory),
        _lock=threading.Lock(),
        _attempt=attempt,
        _end_state=None,
        _say=print,
    )
    scheduler.end_behind_savepoint = lambda state: Scheduler.end_behind_savepoint(scheduler, state)
    return StopWithSavepoint(Mock(), scheduler), scheduler


@pytest.mark.parametrize("there", [True, False])
def test_a_savepoint_that_is_made_is_reported_though_the_stop_fails(tmp_path, there):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_result("the savepoint")
    folder = tmp_path if there else tmp_path / "gone"  # even where it can't be written down that the job has ended
    savepoints, scheduler = ending_in(folder, attempt)
    with pytest.raises(ControlError):
        savepoints._end_behind(made, JobStatus.FINISHED, outer)
    assert outer.result(0) == "the savepoint"
    assert len(attempt.ended) == 1
    assert scheduler._end_state is JobStatus.FINISHED, "no attempt begins behind it"


def test_a_job_whose_savepoint_failed_goes_on(tmp_path):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_exception(CheckpointFailedError("no space"))
    savepoints, scheduler = ending_in(tmp_path, attempt)
    savepoints._end_behind(made, JobStatus.FINISHED, outer)
    assert isinstance(outer.exception(0), CheckpointFailedError)
    assert attempt.ended == []
    assert scheduler._end_state is None
