"""`pystate wait JOBID... [--for end|running|checkpoint] [--timeout SECONDS]`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import typer

from pystate.common.errors import JobCancelledError, JobTerminatedError, PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate_cli.arguments.completions import complete_job
from pystate_cli.arguments.job_selection import find_job, selected_job
from pystate_cli.arguments.options import ApplicationOption, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.client.program_end import program_failure
from pystate_cli.client.rest_client import RestClient
from pystate_cli.session import Session, job_failure, job_state

_POLL_SECONDS = 0.25


class Event(str, Enum):
    """What is waited for."""

    END = "end"
    RUNNING = "running"
    CHECKPOINT = "checkpoint"

    @property
    def not_yet(self) -> str:
        """The message for a job that the event hasn't happened to."""
        return {"end": "not ended yet", "running": "not RUNNING yet", "checkpoint": "no checkpoint completed yet"}[
            self.value
        ]


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
    event: Annotated[
        Event,
        typer.Option(
            "--for",
            metavar="end|running|checkpoint",
            help="What to wait for: the job's end, that it is RUNNING, or that it has completed a checkpoint of its own.",
        ),
    ] = Event.END,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up then; the jobs go on.")
    ] = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Wait for the end of jobs and take over their fate: exit code 0 if all have FINISHED, else 1, with the reasons.

    With --for running or checkpoint: until that has happened to all of them; exit code 1 if one ended before.
    """
    session = Session.of(context)
    console = session.console
    if not jobs and application_id is None:
        message = "Missing JobID. Specify the jobs to wait for."
        raise UsageError(message, hint="pystate list")
    client = session.connect(job_manager)
    ids = [find_job(client, text, tell=console.info) for text in jobs or ()]
    if application_id is not None:
        ids.append(selected_job(client, None, application_id, tell=console.info))
    deadline = None if timeout is None else time.monotonic() + timeout
    fates = _await_all(session, client, list(dict.fromkeys(ids)), event, deadline, tell=not as_json)
    for fate in fates:
        fate.look_past_end(client)
    if as_json:
        console.result_json({"jobs": [fate.to_plain() for fate in fates]})
    for fate in fates:
        if fate.failure is not None:
            console.error(fate.failure)
        elif fate.program_failure is not None:
            console.warning(f"Job {fate.job_id}: {fate.program_failure}")
    running = [fate.job_id for fate in fates if not fate.is_decided]
    if running:
        message = f"Waited for {timeout:g} s, and {event.not_yet}: {', '.join(running)}"
        console.error(PystateError(message, hint="wait again, or look at them with pystate watch"))
    return 0 if all(fate.is_good for fate in fates) else 1


@dataclass
class _Fate:
    """The outcome of waiting for a job.

    Attributes:
        job_id: The job.
        event: The awaited event.
        state: Its final state, or the state at the event; before that the last known state.
        is_decided: Whether waiting is over.
        failure: The error of a job that ended otherwise.
        checkpoint_id: The awaited checkpoint.
        program_failure: The failure of its program after the job FINISHED.
    """

    job_id: str
    event: Event
    state: JobStatus | None = None
    is_decided: bool = False
    failure: PystateError | None = None
    checkpoint_id: int | None = None
    program_failure: PystateError | None = None

    @property
    def is_good(self) -> bool:
        """Whether the event has happened."""
        return self.is_decided and self.failure is None

    @property
    def told(self) -> str:
        """The output on stdout."""
        assert self.state is not None  # noqa: S101 - told of what is decided
        words = [self.job_id, self.state.value, *([] if self.checkpoint_id is None else [str(self.checkpoint_id)])]
        return " ".join(words)

    def look(self, client: RestClient) -> bool:
        """Poll the job; return whether the outcome was just decided."""
        self.is_decided = self._decide(client)
        return self.is_decided

    def look_past_end(self, client: RestClient) -> None:
        """Check whether the program failed after its job."""
        if self.is_good and self.event is Event.END:
            self.program_failure = program_failure(client, self.job_id)

    def _decide(self, client: RestClient) -> bool:
        state = self.state = job_state(client, self.job_id)
        if self._has_happened(client, state):
            # the checkpoint may have been the first sign of a job that was just starting
            self.state = state if self.event is Event.RUNNING else job_state(client, self.job_id)
            return True
        if not state.is_terminal:
            return False
        if state is JobStatus.FAILED:
            self.failure = job_failure(client, self.job_id)
            self.failure.message = f"Job {self.job_id} failed: {self.failure.message}"
        elif state is JobStatus.CANCELED:
            self.failure = JobCancelledError(f"Job {self.job_id} was cancelled.")
        elif state is not JobStatus.FINISHED:
            self.failure = JobTerminatedError(f"Job {self.job_id} ended: {state.value}.")
        elif self.event is not Event.END:
            self.failure = JobTerminatedError(f"Job {self.job_id} has FINISHED: {self.event.not_yet}.")
        return True

    def _has_happened(self, client: RestClient, state: JobStatus) -> bool:
        if self.event is Event.RUNNING:
            return state is JobStatus.RUNNING
        if self.event is Event.CHECKPOINT:
            latest = client.get(f"/jobs/{self.job_id}/checkpoints", CheckpointingStatistics).latest.completed
            self.checkpoint_id = None if latest is None else latest.id
        return self.checkpoint_id is not None

    def to_plain(self) -> dict[str, Any]:
        return {
            "jobId": self.job_id,
            "state": None if self.state is None else self.state.value,
            "checkpointId": self.checkpoint_id,
            "failure": None if self.failure is None else self.failure.to_dict(),
            "programFailure": None if self.program_failure is None else self.program_failure.to_dict(),
        }


def _await_all(
    session: Session, client: RestClient, ids: list[str], event: Event, deadline: float | None, *, tell: bool
) -> list[_Fate]:
    """Return the outcome of each job, even if undecided at the deadline; each is printed once decided."""
    fates = [_Fate(job_id, event) for job_id in ids]
    with session.console.waiting(f"Waiting for {len(ids)} jobs" if len(ids) > 1 else "Waiting for the job"):
        while True:
            for fate in fates:
                if not fate.is_decided and fate.look(client) and tell:
                    session.console.result(fate.told)
            if all(fate.is_decided for fate in fates):
                return fates
            pause = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if pause <= 0:
                return fates
            time.sleep(pause)
