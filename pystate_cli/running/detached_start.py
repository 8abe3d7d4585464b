"""`run -d`, detached: waits until the job is RUNNING, and reports errors of its start."""

from __future__ import annotations

import time

from pystate.common.errors import JobCancelledError, JobExecutionError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import Console
from pystate_cli.console.formats import printable
from pystate_cli.running.waiting import pauses
from pystate_cli.session import job_failure, job_state, restart_sentence

_NEWS_SECONDS = 1.0


class DetachedStart:
    """Waits until a job is initialized, so that an error in it fails the command.

    Args:
        console: The console.
        client: The job manager.
        job_id: The job.
        timeout: Seconds to wait; None for as long as it takes.
    """

    def __init__(self, console: Console, client: RestClient, job_id: str, timeout: float | None = None) -> None:
        self._console = console
        self._client = client
        self._job_id = job_id
        self._timeout = timeout
        self._attempt = 0
        self._waits_for: str | None = None
        self._next_news = 0.0

    def wait(self) -> JobStatus:
        """Return RUNNING once the job runs, or FINISHED if it has ended.

        Raises:
            PystateError: It failed, was cancelled, or doesn't run in time; in the last case it continues.
        """
        try:
            with self._console.waiting("The job is starting"):
                state = self._await()
        except KeyboardInterrupt:
            self._console.info(f"Job {self._job_id} goes on; pystate cancel {self._job_id} ends it.")
            raise
        if state is JobStatus.FAILED:
            raise job_failure(self._client, self._job_id)
        if state is JobStatus.CANCELED:
            message = f"Job {self._job_id} was cancelled before it ran."
            raise JobCancelledError(message)
        if not (state is JobStatus.RUNNING or state.is_terminal):
            message = f"Job {self._job_id} does not run after {self._timeout:g} s: it is {state.value}, and goes on."
            hint = f"pystate exceptions {self._job_id}; pystate cancel {self._job_id} ends it"
            raise JobExecutionError(message, hint=hint)
        return state

    def _await(self) -> JobStatus:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        for pause in pauses():
            state = job_state(self._client, self._job_id)
            if state.is_terminal:
                return state
            self._tell_news(state)
            left = None if deadline is None else deadline - time.monotonic()
            if state is JobStatus.RUNNING or (left is not None and left <= 0):
                return state
            time.sleep(pause if left is None else min(pause, left))
        raise AssertionError(self._job_id)

    def _tell_news(self, state: JobStatus) -> None:
        """Print each attempt that failed since the last poll, and what the job waits for."""
        now = time.monotonic()
        if now < self._next_news and state is not JobStatus.RUNNING:
            return
        self._next_news = now + _NEWS_SECONDS
        details = self._client.get(f"/jobs/{self._job_id}", JobDetailsInfo)
        attempt = details.pystate.attempt
        if attempt > self._attempt:
            self._attempt = attempt
            self._console.warning(restart_sentence(details, attempt - 1))
        waits_for = details.pystate.waits_for
        if waits_for is not None and waits_for != self._waits_for:
            self._console.warning(printable(waits_for))
        self._waits_for = waits_for
