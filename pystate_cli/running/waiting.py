"""Polls the result of an asynchronous operation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from pystate.common.errors import ControlError
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.runtime.rest.operation_messages import CheckpointResult, DisposalResult, OperationProgress, SavepointResult
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import ShowProgress
from pystate_cli.console.formats import waiting_text
from pystate_cli.session import job_state

Result = TypeVar("Result", SavepointResult, CheckpointResult, DisposalResult)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.03, 0.3


def await_operation(client: RestClient, path: str, kind: type[Result], show: ShowProgress | None = None) -> Result:
    """Return the result of a triggered operation.

    Args:
        client: The job manager.
        path: The REST path of the operation.
        kind: The class of the answer.
        show: Called with the progress.

    Raises:
        PystateError: It failed.
        ControlError: The job manager no longer answers. The operation continues in the job, as the error says.
    """
    for pause in pauses():
        try:
            answer = client.get(path, kind)
        except ControlError as error:
            _tell_that_it_goes_on(error, path, kind)
            raise
        if answer.status.is_completed:
            if answer.failure_cause is not None:
                raise failure_of(answer.failure_cause.pystate, answer.failure_cause.stack_trace)
            return answer
        if show is not None:
            progress = answer.pystate or OperationProgress()
            show(progress.acknowledged or 0, progress.total or 0, progress.bytes or 0, progress_waits(progress) or "")
        time.sleep(pause)
    raise AssertionError(path)


def _tell_that_it_goes_on(
    error: ControlError, path: str, kind: type[SavepointResult | CheckpointResult | DisposalResult]
) -> None:
    """Add to the error that the operation may continue in the job, and how to query its result."""
    command = {SavepointResult: "savepoint", CheckpointResult: "checkpoint"}.get(kind)
    if command is None:  # operations of the job manager itself
        return
    _, _, job_id, _, trigger_id = path.split("/")
    error.message += f" The {command} was triggered, and may be completed all the same."
    asking = f"pystate {command} {job_id} --trigger-id {trigger_id} tells what has become of it"
    error.hint = asking if error.hint is None else f"{error.hint}; then {asking}"


def progress_waits(progress: OperationProgress) -> str | None:
    """Return what the barrier of a snapshot in progress waits for; None if it doesn't wait."""
    epoch, since, running = progress.waits_for_epoch, progress.waits_since, progress.epoch_running
    return waiting_text(epoch, since, current_time_ms(), running)


def await_end(client: RestClient, job_id: str) -> JobStatus:
    """Return the terminal state of a job."""
    for pause in pauses():
        state = job_state(client, job_id)
        if state.is_terminal:
            return state
        time.sleep(pause)
    raise AssertionError(job_id)


def pauses() -> Iterator[float]:
    """Yield increasing pauses between two polls, in seconds."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_PAUSE)
