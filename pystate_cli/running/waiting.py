"""Polls the result of an asynchronous operation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import ShowProgress
from pystate_cli.console.formats import waiting_text
from pystate_cli.session import job_state

_FIRST_PAUSE, _LONGEST_PAUSE = 0.03, 0.3


def await_operation(client: RestClient, path: str, show: ShowProgress | None = None) -> dict[str, Any]:
    """Return the result of a triggered operation.

    Args:
        client: The job manager.
        path: Where it answers for the operation.
        show: Is told how far it is.

    Raises:
        PystateError: It failed.
    """
    for pause in pauses():
        answer = client.get(path)
        if answer["status"]["id"] == "COMPLETED":
            operation = dict(answer["operation"])
            cause = operation.get("failure-cause") or operation.get("failureCause")
            if cause is not None:
                raise failure_of(cause)
            return operation
        if show is not None:
            progress = answer.get("pystate") or {}
            waits = waiting_text(progress, current_time_ms()) or ""
            show(progress.get("acknowledged", 0), progress.get("total", 0), progress.get("bytes", 0), waits)
        time.sleep(pause)
    raise AssertionError(path)


def await_end(client: RestClient, job_id: str) -> JobStatus:
    """Return the terminal state of a job."""
    for pause in pauses():
        state = job_state(client, job_id)
        if state.is_terminal:
            return state
        time.sleep(pause)
    raise AssertionError(job_id)


def pauses() -> Iterator[float]:
    """Yield how long to wait between two looks, in seconds: longer from look to look."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_PAUSE)
