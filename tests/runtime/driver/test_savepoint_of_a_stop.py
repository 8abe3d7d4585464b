"""A savepoint after which a job is to end is told of, whatever befalls the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ControlError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.driver.failures.execution_failure_handler import ExecutionFailureHandler
from pystate.runtime.driver.scheduler import Scheduler
from pystate.runtime.driver.stop_with_savepoint import StopWithSavepoint
from pystate.runtime.execution.execution_attempt import AttemptOutcome
from tests.waiting import LONGEST_S


def made_savepoint(*, heard: bool = True) -> Any:
    return SimpleNamespace(heard=heard, checkpoint_id=7, path="file:/somewhere")


class Attempt:
    restored_checkpoint_id = 5

    def __init__(self) -> None:
        self.ended: list[Any] = []

    def end(self, end: Any) -> None:
        self.ended.append(end)
        message = "the slots can't be reached"
        raise ControlError(message)


def ending_in(path: Any, attempt: Attempt) -> tuple[StopWithSavepoint, Any]:
    """The parts of a scheduler that end a job after a savepoint."""
    directory = JobDirectory(path)
    scheduler: Any = SimpleNamespace(
        _failures=ExecutionFailureHandler(Configuration({"restart-strategy.type": "fixed-delay"}), directory),
        _job=SimpleNamespace(directory=directory),
        _lock=threading.Lock(),
        _attempt=attempt,
        _end_state=None,
        _end_after=Future(),
        _commits=True,
        _say=print,
    )
    scheduler._end_job = lambda state: Scheduler._end_job(scheduler, state)
    scheduler.end_after_savepoint = lambda made, state: Scheduler.end_after_savepoint(scheduler, made, state)
    return StopWithSavepoint(Mock(), scheduler), scheduler


@pytest.mark.parametrize("there", [True, False])
def test_a_savepoint_that_is_made_is_reported_though_the_stop_fails(tmp_path, there):
    made, outer, attempt = Future(), Future(), Attempt()
    savepoint = made_savepoint()
    made.set_result(savepoint)
    folder = tmp_path if there else tmp_path / "gone"  # even where it can't be written down that the job has ended
    savepoints, scheduler = ending_in(folder, attempt)
    with pytest.raises(ControlError):
        savepoints._end_after(made, JobStatus.FINISHED, outer)
    assert outer.result(0) is savepoint
    assert len(attempt.ended) == 1
    assert scheduler._end_state is JobStatus.FINISHED, "no attempt begins after it"


def test_a_job_whose_savepoint_failed_goes_on(tmp_path):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_exception(CheckpointFailedError("no space"))
    savepoints, scheduler = ending_in(tmp_path, attempt)
    savepoints._end_after(made, JobStatus.FINISHED, outer)
    assert isinstance(outer.exception(0), CheckpointFailedError)
    assert attempt.ended == []
    assert scheduler._end_state is None


@pytest.mark.parametrize(
    ("commits", "restored", "ends"),
    [(True, 5, [AttemptOutcome.FAILED]), (True, 7, []), (False, 5, [AttemptOutcome.FINISHED])],
)
def test_a_job_whose_sinks_may_not_have_committed_starts_once_more_and_ends_then(tmp_path, commits, restored, ends):
    made, outer, attempt = Future(), Future(), Attempt()
    made.set_result(made_savepoint(heard=False))
    savepoints, scheduler = ending_in(tmp_path, attempt)
    scheduler._commits, attempt.restored_checkpoint_id = commits, restored
    with contextlib.suppress(ControlError):
        savepoints._end_after(made, JobStatus.FINISHED, outer)
    assert [end.outcome for end in attempt.ended] == ends
    assert scheduler._end_state is (None if commits else JobStatus.FINISHED)
    scheduler._job.coordinator = SimpleNamespace(ends_at=lambda snapshot: snapshot == "of the savepoint")
    assert Scheduler._ends_deployed(scheduler, "an older one") is None
    if commits:
        assert scheduler._end_state is None, "nobody starts a job again of which that is written down"
        assert Scheduler._ends_deployed(scheduler, "of the savepoint").outcome is AttemptOutcome.FINISHED
        assert scheduler._end_state is JobStatus.FINISHED


class DrainingScheduler:
    """Begins the last epoch when a test says so; remembers how the job ended."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.refuses: Exception | None = None
        self.failures: list[PystateError] = []
        self.ended: list[JobStatus] = []

    def drain(self, savepoint: CheckpointRequest) -> Callable[[PystateError], None]:
        assert self.go_on.wait(LONGEST_S)
        if self.refuses is not None:
            raise self.refuses
        return self.failures.append

    def end_after_savepoint(self, completed: Any, state: JobStatus) -> None:
        self.ended.append(state)


def draining() -> tuple[StopWithSavepoint, DrainingScheduler, list[CheckpointRequest]]:
    """A job's savepoints; with the requests for them."""
    requests: list[CheckpointRequest] = []

    def request(directory: str | None, *, hold: bool, **_: object) -> CheckpointRequest:
        assert hold
        requests.append(CheckpointRequest(CheckpointType.SAVEPOINT, hold=hold))
        return requests[-1]

    scheduler: Any = DrainingScheduler()
    coordinator: Any = SimpleNamespace(savepoint_request=request)
    return StopWithSavepoint(coordinator, scheduler), scheduler, requests


def drain(savepoints: StopWithSavepoint, *, drains: bool = True) -> Future[Any]:
    form = SavepointFormatType.CANONICAL
    return savepoints.trigger(None, JobStatus.FINISHED, message=None, format=form, drain=drains)


@pytest.mark.parametrize("drains", [True, False])
def test_a_job_that_is_being_drained_is_not_stopped_again(drains):
    savepoints, scheduler, requests = draining()
    drained = drain(savepoints)
    with pytest.raises(CheckpointFailedError, match="being drained already"):
        drain(savepoints, drains=drains)
    scheduler.go_on.set()
    completed: Any = "the savepoint"
    requests[0].future.set_result(completed)
    assert drained.result(LONGEST_S) == "the savepoint"
    assert (scheduler.ended, scheduler.failures) == ([JobStatus.FINISHED], [])


def test_a_savepoint_that_fails_after_the_end_of_event_time_fails_the_attempt_and_the_job_may_be_drained_again():
    savepoints, scheduler, requests = draining()
    scheduler.go_on.set()
    failed = drain(savepoints)
    requests[0].future.set_exception(CheckpointFailedError("no space"))
    with pytest.raises(CheckpointFailedError, match="no space"):
        failed.result(LONGEST_S)
    assert scheduler.ended == []
    assert [str(error) for error in scheduler.failures] == ["The savepoint of a drained job failed: no space"]
    assert not drain(savepoints).done()


def test_a_drain_that_could_not_begin_fails_nothing_and_may_be_tried_again():
    savepoints, scheduler, _ = draining()
    scheduler.refuses = CheckpointFailedError("no attempt runs")
    scheduler.go_on.set()
    with pytest.raises(CheckpointFailedError, match="no attempt runs"):
        drain(savepoints).result(LONGEST_S)
    assert (scheduler.ended, scheduler.failures) == ([], [])
    scheduler.refuses = None
    assert not drain(savepoints).done()
