"""The jobs of resources at their job manager: what is seen of them, and what is done, by its REST."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Protocol

from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.checkpointing_options import ExternalizedCheckpointRetention as Retention
from pystate.common.configuration.loaded_configuration import LoadedConfiguration
from pystate.common.errors import JobNotFoundError, JobTerminatedError, NoSnapshotError, PystateError
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.supervision.cached_operations import OperationNotFoundError
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics, CheckpointStatistics, CheckpointStatsStatus
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.job_messages import JobDetails, MultipleJobsDetails
from pystate.runtime.rest.message import RestMessage
from pystate.runtime.rest.operation_messages import DisposalResult, SavepointResult, TriggerResponse
from pystate.runtime.rest.own_job_messages import JobSubmitResponseBody, SubmissionInfo
from pystate.runtime.rest.request_bodies import (
    JobSubmitRequestBody,
    SavepointDisposalRequest,
    SavepointTriggerRequestBody,
    StopWithSavepointRequestBody,
)
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient
from pystate_operator.custom_resource import SpecError
from pystate_operator.resource import (
    Action,
    ActionKind,
    Deployment,
    JobState,
    Observation,
    ObservedJob,
    Savepoint,
    Spec,
    UpgradeMode,
)

_STATES = {
    JobStatus.RUNNING: JobState.RUNNING,
    JobStatus.FINISHED: JobState.FINISHED,
    JobStatus.FAILED: JobState.FAILED,
    JobStatus.CANCELED: JobState.CANCELED,
}
"""All others are STARTING."""
_MOST_TRIES = 100
"""As many results of triggers as a job keeps."""
_DISPOSAL_SECONDS = 60.0
_POLL_SECONDS = 0.1
RETENTION = CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION.key
"""Cancelled jobs keep their last checkpoint, for what comes after them starts from it."""


class Jobs(Protocol):
    """Sees the jobs of resources, and acts on them."""

    def check(self, spec: Spec) -> None:
        """Check the options of a resource.

        Raises:
            PystateError: One is unknown, has a value that it can't have, or doesn't fit the rest.
        """

    def observe(self, name: str) -> Observation:
        """Return the jobs whose names begin so.

        Raises:
            PystateError: The job manager doesn't say.
        """

    def act(self, action: Action) -> None:
        """Do something; once more does no more.

        Raises:
            PystateError: It can't be done now.
        """


class RestJobs:
    """The jobs at a job manager, by REST.

    Args:
        connect: Returns a client of the job manager that leads.
        configure: Returns the configuration with the options of a resource in it, as `pystate run` makes it of `-D`.
    """

    def __init__(
        self, connect: Callable[[], RestClient], configure: Callable[[Mapping[str, str]], LoadedConfiguration]
    ) -> None:
        self._connect = connect
        self._configure = configure

    def check(self, spec: Spec) -> None:
        """Check the options of a resource, see `Jobs`."""
        configuration = self._configured(json.loads(spec.version.submission)).configuration
        kept = configuration.get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION)
        if spec.upgrade_mode is UpgradeMode.LAST_STATE and kept is not Retention.RETAIN_ON_CANCELLATION:
            message = f"upgradeMode last-state can't start from a checkpoint that {RETENTION} = {kept.value} deletes."
            raise SpecError(message, where="spec.flinkConfiguration", hint=f"leave {RETENTION} out")

    def observe(self, name: str) -> Observation:
        """Return the jobs whose names begin so, see `Jobs`."""
        client = self._connect()
        ours = re.compile(rf"{re.escape(name)}-\d+")
        jobs = {job.name: job for job in _overview(client) if ours.fullmatch(job.name) and job.jid == job_id(job.name)}
        return Observation({one: _observed(client, job, name) for one, job in jobs.items()})

    def act(self, action: Action) -> None:
        """Do something, see `Jobs`."""
        client, job, resource = self._connect(), job_id(action.job), action.job.rpartition("-")[0]
        if action.deployment is not None:
            client.post("/pystate/jobs", self._submission(action.deployment), JobSubmitResponseBody)
        elif action.kind is ActionKind.DISPOSE_SAVEPOINT:
            _dispose(client, action.path)
        elif action.kind is ActionKind.CANCEL:
            try:
                client.patch(f"/jobs/{job}?mode=cancel")
            except (JobNotFoundError, JobTerminatedError):
                pass  # which is what is wanted
        elif action.kind is ActionKind.STOP_WITH_SAVEPOINT:
            restarts = [one.pystate.restarts for one in _overview(client) if one.jid == job]
            said = f"stop after restart {restarts[0] if restarts else 0}"
            where: dict[str, Any] = {"target_directory": _folder(client, job, resource)}
            _trigger(client, job, "stop", said, lambda chosen: StopWithSavepointRequestBody(trigger_id=chosen, **where))
        else:
            newest = _observed_savepoints(_checkpoints(client, job), resource)[-1:]
            said = f"savepoint after {newest[0].path if newest else 'none'}"
            where = {"target_directory": _folder(client, job, resource)}
            _trigger(client, job, "savepoints", said, lambda chosen: SavepointTriggerRequestBody(trigger_id=chosen, **where))

    def _submission(self, deployment: Deployment) -> JobSubmitRequestBody:
        asked = json.loads(deployment.version.submission)
        program = asked["job.program"]
        loaded = self._configured(asked).configuration
        return JobSubmitRequestBody(
            job_file=program,
            arguments=asked.get("job.args", []),
            working_directory=str(PurePosixPath(program).parent),
            python=sys.executable,  # of the same image
            parallelism=asked.get("job.parallelism"),
            savepoint_path=deployment.start,
            allow_non_restored_state=asked["job.allowNonRestoredState"],
            configuration=loaded.to_dict(),
            origins=loaded.origins(),
            job_name=deployment.name,
            job_id=job_id(deployment.name),
        )

    def _configured(self, asked: Mapping[str, Any]) -> LoadedConfiguration:
        return self._configure({RETENTION: Retention.RETAIN_ON_CANCELLATION.value, **asked.get("flinkConfiguration", {})})


def job_id(name: str) -> str:
    """Return the id of the job with a name, which no other job has: so no job is submitted twice."""
    return hashlib.sha256(f"pystate.dev {name}".encode()).hexdigest()[:32]


def _observed(client: RestClient, job: JobDetails, resource: str) -> ObservedJob:
    told = _checkpoints(client, job.jid)
    state = _STATES.get(job.state, JobState.STARTING)
    completed = [one for one in told.history if one.status is CheckpointStatsStatus.COMPLETED]
    last = completed[0] if completed else None
    stopped_with = None
    if state is JobState.FINISHED and last is not None and last.is_savepoint and not last.discarded:
        stopped_with = last.external_path  # a bounded job that ends by itself completes a checkpoint last
    pending = [one for one in told.history if one.status is CheckpointStatsStatus.IN_PROGRESS and one.is_savepoint]
    candidates = [*([told.latest.completed] if told.latest.completed else []), *completed]
    latest = max(
        (one for one in candidates if not one.is_savepoint and _is_there(one)), key=lambda one: one.id, default=None
    )
    return ObservedJob(
        state=state,
        latest_checkpoint=None if latest is None else latest.external_path,
        savepoints=_observed_savepoints(told, resource),
        stopped_with=stopped_with,
        stopping=job.state is JobStatus.CANCELLING,
        taking_savepoint=bool(pending) and state is JobState.RUNNING,
    )


def _overview(client: RestClient) -> list[JobDetails]:
    return client.get("/jobs/overview", MultipleJobsDetails).jobs


def _checkpoints(client: RestClient, job: str) -> CheckpointingStatistics:
    return client.get(f"/jobs/{job}/checkpoints", CheckpointingStatistics)


def _is_there(one: CheckpointStatistics) -> bool:
    return one.external_path is not None and not one.discarded


def _folder(client: RestClient, job: str, resource: str) -> str | None:
    """Return where savepoints on behalf of a resource go: others than these are people's, and never deleted."""
    told = client.get(f"/pystate/jobs/{job}/submission", SubmissionInfo)
    folder = {one.key: one.value for one in told.settings}.get(CheckpointingOptions.SAVEPOINT_DIRECTORY.key)
    return f"{folder.rstrip('/')}/{resource}" if folder else None  # without one the request is refused, with the reason


def _observed_savepoints(told: CheckpointingStatistics, resource: str) -> tuple[Savepoint, ...]:
    """Return a job's savepoints on behalf of its resource, the oldest first."""
    listed = [*told.history, *([told.latest.savepoint] if told.latest.savepoint else [])]
    done = {
        one.external_path: one.latest_ack_timestamp / 1000
        for one in sorted(listed, key=lambda one: one.id)
        if one.is_savepoint
        and one.status is CheckpointStatsStatus.COMPLETED
        and one.external_path
        and PurePosixPath(one.external_path).parent.name == resource
    }
    return tuple(Savepoint(path, taken_at) for path, taken_at in done.items())


def _trigger(client: RestClient, job: str, path: str, what: str, body: Callable[[str], RestMessage]) -> None:
    """Trigger something unless it is under way or done: its id follows from what it is, and from how often it has failed.

    Raises:
        PystateError: It has failed before; it was triggered again.
    """
    failure: PystateError | None = None
    for number in range(_MOST_TRIES):
        chosen = hashlib.sha256(f"{job} {what} {number}".encode()).hexdigest()[:32]
        try:
            told = client.get(f"/jobs/{job}/savepoints/{chosen}", SavepointResult)
        except OperationNotFoundError:
            client.post(f"/jobs/{job}/{path}", body(chosen), TriggerResponse)
            if failure is not None:
                raise failure from None
            return
        except JobNotFoundError:
            return
        if told.failure_cause is None:
            return
        failure = failure_of(told.failure_cause.pystate, told.failure_cause.stack_trace)
    message = f"{_MOST_TRIES} tries to take a savepoint of job {job} have failed."
    raise PystateError(message, hint=f"pystate checkpoints {job}")


def _dispose(client: RestClient, path: str) -> None:
    """Delete a savepoint, and wait for that."""
    chosen = client.post("/savepoint-disposal", SavepointDisposalRequest(savepoint_path=path), TriggerResponse).request_id
    until = time.monotonic() + _DISPOSAL_SECONDS
    while True:
        told = client.get(f"/savepoint-disposal/{chosen}", DisposalResult)
        if told.status.is_completed:
            break
        if time.monotonic() > until:
            message = f"The savepoint {path} is still not deleted after {_DISPOSAL_SECONDS:g} s."
            raise PystateError(message)
        time.sleep(_POLL_SECONDS)
    if told.failure_cause is not None:
        _raise_unless_gone(told.failure_cause)


def _raise_unless_gone(cause: FailureCause) -> None:
    failure = failure_of(cause.pystate, cause.stack_trace)
    if not isinstance(failure, NoSnapshotError):
        raise failure
