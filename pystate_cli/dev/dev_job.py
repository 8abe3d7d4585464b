"""What `pystate dev` asks of a job manager. Whatever takes time yields meanwhile, so that the screen stays alive."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.errors import JobExecutionError, PystateError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo
from pystate.runtime.rest.operation_messages import SavepointResult, TriggerResponse
from pystate.runtime.rest.own_job_messages import JobSubmitResponseBody, ResubmissionInfo
from pystate.runtime.rest.request_bodies import (
    JobSubmitRequestBody,
    ResubmissionRequestBody,
    SavepointDisposalRequest,
    SavepointTriggerRequestBody,
    StopWithSavepointRequestBody,
)
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient
from pystate_cli.dev.code_versions import CodeVersion
from pystate_cli.session import job_failure, job_state

_KEPT_SAVEPOINTS = 3
_RESERVED_SECONDS = 300.0
"""How often a driver is asked for again: the job manager keeps one for a few minutes."""
_NATIVE, _CANONICAL = "NATIVE", "CANONICAL"

Waiting: TypeAlias = Generator[None, None, None]


@dataclass(frozen=True)
class JobProgram:
    """What is the same of all jobs of a session.

    Attributes:
        arguments: The program's.
        parallelism: The value of -p.
        configuration: The settings.
        origins: Where they come from.
        job_name: The value of --name.
        allow_non_restored_state: The value of -n.
    """

    arguments: list[str]
    parallelism: int | None
    configuration: dict[str, str]
    origins: dict[str, str]
    job_name: str | None = None
    allow_non_restored_state: bool = False


def with_copies(configuration: dict[str, str], version: CodeVersion) -> dict[str, str]:
    """Return the settings of a version: what -pyfs names is its own copy."""
    if not version.extra:
        return configuration
    return {**configuration, PythonOptions.PYTHON_FILES.key: ",".join(map(str, version.extra))}


def is_snapshot(path: str) -> bool:
    """Return whether a job can start from a path."""
    from pystate.core.snapshot.starting_snapshot import read_starting_point

    try:
        read_starting_point(path)
    except PystateError:
        return False
    return True


class DevJob:
    """The job of a session, which is another one after each save.

    Args:
        client: The job manager.
        program: What the jobs have in common.
        savepoints: The folder for savepoints.
        earlier: Savepoints of earlier sessions in there, oldest first.
        snapshot: What the first job starts from; None for nothing.
        job_id: A job that runs already; None if the first one is yet to be started.
        is_there: Whether a job can start from a path.

    Attributes:
        job_id: The job that runs, or ran last; None before the first.
        snapshot: The savepoint that was taken last, or what the job was started from.
        savepoint_taken: The last savepoint of this session.
    """

    def __init__(
        self,
        client: RestClient,
        program: JobProgram,
        savepoints: str,
        earlier: list[str],
        snapshot: str | None,
        job_id: str | None = None,
        is_there: Callable[[str], bool] = is_snapshot,
    ) -> None:
        self._client = client
        self._program = program
        self._folder = savepoints
        self._taken = list(earlier)
        self._is_there = is_there
        self._format = _NATIVE
        self._keeper: tuple[str, str | None] | None = None  # the job, and the id of the client that asked to keep it
        self._reserved_at = 0.0
        self.job_id = job_id
        self.snapshot = snapshot
        self.savepoint_taken: str | None = None

    def state(self) -> JobStatus | None:
        """Return the state of the job; None before the first."""
        return None if self.job_id is None else job_state(self._client, self.job_id)

    def start(self, version: CodeVersion, snapshot: str | None) -> None:
        """Submit a version of the program.

        Args:
            version: The version.
            snapshot: What it starts from; None for nothing.
        """
        submission = JobSubmitRequestBody(
            job_file=str(version.job_file),
            arguments=self._program.arguments,
            working_directory=os.getcwd(),
            python=sys.executable,
            parallelism=self._program.parallelism,
            savepoint_path=snapshot,
            allow_non_restored_state=self._program.allow_non_restored_state,
            configuration=with_copies(self._program.configuration, version),
            origins=self._program.origins,
            job_name=self._program.job_name,
            attached=True,  # else what it prints is in its log
            environment=dict(os.environ),
        )
        self.snapshot = snapshot
        self.job_id = self._client.post("/pystate/jobs", submission, JobSubmitResponseBody).job_id

    def await_running(self) -> Generator[None, None, PystateError | None]:
        """Wait until the job runs or has finished; return why it doesn't, in which case it is ended."""
        assert self.job_id is not None  # noqa: S101 - it was started
        while True:
            details = self._client.get(f"/jobs/{self.job_id}", JobDetailsInfo)
            state = details.state
            if state is JobStatus.FINISHED or (state is JobStatus.RUNNING and details.pystate.failure is None):
                return None
            if state is JobStatus.FAILED:
                return job_failure(self._client, self.job_id)
            if state.is_terminal:
                return JobExecutionError(f"Job {self.job_id} ended before it ran: {state.value}.")
            if details.pystate.failure is not None:  # it would be restarted, with the same outcome
                failure = self.last_failure()
                yield from self.cancel()
                return failure
            yield

    def savepoint(self) -> Generator[None, None, str]:
        """Take a savepoint while the job goes on; return where it is."""
        body = SavepointTriggerRequestBody(target_directory=self._folder, format_type=self._format)
        try:
            request = self._client.post(f"/jobs/{self.job_id}/savepoints", body, TriggerResponse).request_id
            return (yield from self._savepoint(request))
        except PystateError:
            if self._format == _CANONICAL:
                raise
        self._format = _CANONICAL  # a state backend need not have native ones
        return (yield from self.savepoint())

    def stop(self) -> Generator[None, None, str]:
        """Stop the job with a savepoint; return where that is."""
        body = StopWithSavepointRequestBody(target_directory=self._folder, format_type=self._format)
        request = self._client.post(f"/jobs/{self.job_id}/stop", body, TriggerResponse).request_id
        path = yield from self._savepoint(request)
        yield from self._ended()
        return path

    def cancel(self) -> Waiting:
        """Cancel the job, unless it has ended."""
        if self.job_id is None:
            return
        with contextlib.suppress(PystateError):  # it has ended meanwhile
            self._client.patch(f"/jobs/{self.job_id}?mode=cancel")
        yield from self._ended()

    def latest(self) -> str | None:
        """Return the last snapshot of the job that is still there; the one that it started from if it has taken none."""
        found: list[str | None] = []
        if self.job_id is not None:
            latest = self._client.get(f"/jobs/{self.job_id}/checkpoints", CheckpointingStatistics).latest
            taken = [one for one in (latest.completed, latest.savepoint) if one is not None and not one.discarded]
            found = [one.external_path for one in sorted(taken, key=lambda one: -one.id)]
        # a program may have its checkpoints deleted when it is cancelled
        for path in (*found, self.snapshot, self.savepoint_taken):
            if path and self._is_there(path):
                return path
        return None

    def failure(self) -> PystateError:
        """Return the error of a job that has FAILED."""
        assert self.job_id is not None  # noqa: S101 - it has ended
        return job_failure(self._client, self.job_id)

    def last_failure(self) -> PystateError | None:
        """Return why the last attempt failed; None if none has."""
        cause = self._client.get(f"/jobs/{self.job_id}", JobDetailsInfo).pystate.failure
        return None if cause is None else failure_of(cause.pystate, cause.stack_trace)

    def keep_driver_warm(self, parallelism: int) -> None:
        """Have a spare driver wait for the next version, as long as this is called."""
        now = time.monotonic()
        before = self._keeper
        if self.job_id is None or (
            before is not None and before[0] == self.job_id and now - self._reserved_at < _RESERVED_SECONDS
        ):
            return
        self._reserved_at = now
        self._keeper = self.job_id, None
        with contextlib.suppress(PystateError):  # without one the next start takes longer
            body = ResubmissionRequestBody(parallelism=parallelism, warm=True)
            kept = self._client.post(f"/pystate/jobs/{self.job_id}/resubmission", body, ResubmissionInfo)
            self._keeper = self.job_id, kept.keeper
            self._release(before)

    def release_driver(self) -> None:
        """Say that no version follows."""
        before, self._keeper = self._keeper, None
        self._release(before)

    def _release(self, keeper: tuple[str, str | None] | None) -> None:
        if keeper is not None and keeper[1] is not None:
            with contextlib.suppress(PystateError):
                self._client.delete(f"/pystate/jobs/{keeper[0]}/resubmission?keeper={keeper[1]}")

    def _savepoint(self, request: str) -> Generator[None, None, str]:
        while True:
            answer = self._client.get(f"/jobs/{self.job_id}/savepoints/{request}", SavepointResult)
            if answer.status.is_completed:
                break
            yield
        if answer.failure_cause is not None:
            raise failure_of(answer.failure_cause.pystate, answer.failure_cause.stack_trace)
        self.snapshot = self.savepoint_taken = answer.outcome
        self._taken.append(answer.outcome)
        while len(self._taken) > _KEPT_SAVEPOINTS:
            body = SavepointDisposalRequest(savepoint_path=self._taken.pop(0))
            with contextlib.suppress(PystateError):  # somebody else has deleted it
                self._client.post("/savepoint-disposal", body, TriggerResponse)
        return answer.outcome

    def _ended(self) -> Waiting:
        assert self.job_id is not None  # noqa: S101 - it was started
        while not job_state(self._client, self.job_id).is_terminal:
            yield
