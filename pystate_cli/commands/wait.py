"""`pystate wait JOBID... [--timeout SECONDS]`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pystate.common.errors import JobCancelledError, JobTerminatedError, PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate_cli.completions import complete_job
from pystate_cli.job_selection import find_job, selected_job
from pystate_cli.options import ApplicationOption, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.rest_client import RestClient
from pystate_cli.session import Session, job_failure, job_state

_POLL_SECONDS = 0.25


def wait(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOBID...",
            help="Jobs by id, by at least 4 digits an id begins with, or by name.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up then; the jobs go on.")
    ] = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Wait for the end of jobs and take over their fate: exit code 0 if all have FINISHED, else 1, with the reasons."""
    session = Session.of(context)
    console = session.console
    if not jobs and application_id is None:
        message = "Missing JobID. Specify the jobs to wait for."
        raise UsageError(message, hint="pystate list")
    client = session.connect(job_manager)
    ids = [find_job(client, text, tell=console.story) for text in jobs or ()]
    if application_id is not None:
        ids.append(selected_job(client, None, application_id, tell=console.story))
    deadline = None if timeout is None else time.monotonic() + timeout
    fates = _await_all(session, client, list(dict.fromkeys(ids)), deadline, tell=not as_json)
    if as_json:
        console.result_json({"jobs": [fate.to_plain() for fate in fates]})
    for fate in fates:
        if fate.failure is not None:
            console.error(fate.failure)
    running = [fate.job_id for fate in fates if fate.state is None]
    if running:
        message = f"Waited for {timeout:g} s, and not ended yet: {', '.join(running)}"
        console.error(PystateError(message, hint="wait again, or look at them with pystate watch"))
    return 0 if all(fate.state is JobStatus.FINISHED for fate in fates) else 1


@dataclass
class _Fate:
    """How a job ended; `state` is None for one that has not."""

    job_id: str
    state: JobStatus | None = None
    failure: PystateError | None = None

    def look(self, client: RestClient) -> bool:
        """Return whether the job has just been found to have ended."""
        state = job_state(client, self.job_id)
        if not state.is_terminal:
            return False
        self.state = state
        if state is JobStatus.FAILED:
            self.failure = job_failure(client, self.job_id)
            self.failure.message = f"Job {self.job_id} failed: {self.failure.message}"
        elif state is JobStatus.CANCELED:
            self.failure = JobCancelledError(f"Job {self.job_id} was cancelled.")
        elif state is not JobStatus.FINISHED:
            self.failure = JobTerminatedError(f"Job {self.job_id} ended: {state.value}.")
        return True

    def to_plain(self) -> dict[str, Any]:
        state = None if self.state is None else self.state.value
        return {"job_id": self.job_id, "state": state, "failure": None if self.failure is None else self.failure.to_dict()}


def _await_all(session: Session, client: RestClient, ids: list[str], deadline: float | None, *, tell: bool) -> list[_Fate]:
    """Return how each job ended, or has not at the deadline; each end is told as it comes."""
    fates = [_Fate(job_id) for job_id in ids]
    with session.console.waiting(f"Waiting for {len(ids)} jobs" if len(ids) > 1 else "Waiting for the job"):
        while True:
            for fate in fates:
                if fate.state is None and fate.look(client) and tell and fate.state is not None:
                    session.console.result(f"{fate.job_id} {fate.state.value}")
            if all(fate.state is not None for fate in fates):
                return fates
            pause = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if pause <= 0:
                return fates
            time.sleep(pause)
