"""`status.json`: the status of a job, which outlives its driver, and the legal transitions between job states.

The driver writes it at each change; between two drivers, the job manager does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.errors import DriverLostError, PystateError, SparkLostError
from pystate.common.job_status import JobStatus
from pystate.common.stream_guarantee import StreamGuarantee
from pystate.common.text.plain_data import Bounds, Natural, OpenPlainData
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.failure_history import AttemptFailure, JobFailure, with_failure

_ENDS = frozenset(state for state in JobStatus if state.is_terminal)
# Any job that has not ended can be cancelled, can end (with a savepoint from any state, too), and is restarted when its
# driver dies. On a full disk the file may be outdated when the job manager continues from it.
_ALWAYS = _ENDS | {JobStatus.RESTARTING, JobStatus.CANCELLING}
LEGAL_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.INITIALIZING: _ALWAYS | {JobStatus.CREATED},
    JobStatus.CREATED: _ALWAYS | {JobStatus.CREATED, JobStatus.RUNNING},  # once more when its slots are there
    JobStatus.RUNNING: _ALWAYS,
    JobStatus.RESTARTING: _ALWAYS | {JobStatus.CREATED, JobStatus.RUNNING},
    JobStatus.CANCELLING: _ALWAYS,
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.FINISHED: frozenset(),
    # no driver of this version enters these states
    JobStatus.FAILING: _ALWAYS,
    JobStatus.SUSPENDED: _ALWAYS,
    JobStatus.RECONCILING: _ALWAYS,
}
"""The legal next states of each of Flink's job states."""

Instant = Annotated[int, Bounds(-1, 253_402_300_799_999)]
"""Milliseconds since 1970, up to the year 9999; -1 for never."""
Parallelism = Annotated[int, Bounds(-1, 1 << 15)]
"""Flink's upper bound; -1 for unknown."""


class IllegalJobStatusMoveError(PystateError):
    """The transition between two job states is illegal."""


@dataclass(frozen=True)
class JobVertexStatus(OpenPlainData):
    """A vertex of the job.

    Attributes:
        id: Its id, 32 hex digits.
        uid: The uid of the operator.
        name: Its displayed name.
        parallelism: The number of its subtasks.
        status: Its status, which is that of the job.
    """

    id: str
    uid: str
    name: str
    parallelism: Parallelism
    status: JobStatus


@dataclass(frozen=True)
class JobStatusFile(OpenPlainData, FileContent):
    """The content of the file. Times are ms since 1970, -1 for never.

    Attributes:
        state: The state of the job.
        name: Its name.
        parallelism: The highest of its vertices; -1 before it has been planned.
        max_parallelism: The same.
        start_time: When its first driver began.
        end_time: When it ended.
        timestamps: When it last entered each state.
        attempt: The number of the execution attempt that runs, or is to run next.
        failure: The failure of the last attempt.
        failures: The last failures, the newest first.
        failure_count: The total number of failures.
        vertices: Its vertices, once it has been planned.
        plan: The nodes of its plan, see `plan_nodes`.
        plan_warnings: Sentences about what users should change.
        engine: The engine that it runs on; null before it has been planned.
        checkpoint_config: The options of checkpointing in force.
        guarantees: The delivery guarantee of each source and sink.
        application_id: The Spark application that runs it.
        waits_for: What keeps it from running, until its next transition.
    """

    title: ClassVar[str] = "The job's status"

    state: JobStatus
    name: str = ""
    parallelism: Parallelism = -1
    max_parallelism: Parallelism = -1
    start_time: Instant = -1
    end_time: Instant = -1
    timestamps: dict[str, Instant] = field(default_factory=dict)
    attempt: Natural = 0
    failure: JobFailure | None = None
    failures: list[AttemptFailure] = field(default_factory=list)
    failure_count: Natural = 0
    vertices: list[JobVertexStatus] = field(default_factory=list)
    plan: list[dict[str, Any]] = field(default_factory=list)
    plan_warnings: list[str] = field(default_factory=list)
    engine: ExecutionEngine | None = None
    checkpoint_config: dict[str, Any] | None = None
    guarantees: list[StreamGuarantee] = field(default_factory=list)
    application_id: str | None = None
    waits_for: str | None = None

    @staticmethod
    def begun(name: str, now_ms: int) -> JobStatusFile:
        """Return the initial status of a job."""
        state = JobStatus.INITIALIZING
        return JobStatusFile(state, name, start_time=now_ms, timestamps={state.value: now_ms})

    @property
    def has_failed(self) -> bool:
        """Whether its attempt has recorded a failure."""
        return bool(self.failures) and self.failures[0].attempt == self.attempt

    def may_move_to(self, state: JobStatus) -> bool:
        """Return whether a transition to a state is legal."""
        return state in LEGAL_MOVES[self.state]

    def moved_to(self, state: JobStatus, now_ms: int) -> JobStatusFile:
        """Return the status of the job in another state.

        Raises:
            IllegalJobStatusMoveError: That state can't follow.
        """
        if not self.may_move_to(state):
            message = f"The job is {self.state.value} and can't become {state.value}."
            raise IllegalJobStatusMoveError(message)
        return replace(
            self,
            state=state,
            timestamps={**self.timestamps, state.value: now_ms},
            end_time=now_ms if state.is_terminal else self.end_time,
            vertices=[replace(vertex, status=state) for vertex in self.vertices],
            waits_for=None,
        )

    @property
    def goes_on_in_next_start(self) -> bool:
        """Whether the next start of the program goes on with the job: it hasn't ended, or only its processes have.

        When the JVM of a program dies first, the program may still tell that before it ends itself.
        """
        if not self.state.is_terminal:
            return True
        lost = {DriverLostError.__name__, SparkLostError.__name__}
        return self.state is JobStatus.FAILED and self.failure is not None and self.failure.error_class in lost

    def restarting(self, now_ms: int) -> JobStatusFile:
        """Return the status of the job before its next attempt.

        Raises:
            IllegalJobStatusMoveError: It has ended.
        """
        return replace(self.moved_to(JobStatus.RESTARTING, now_ms), attempt=self.attempt + 1)

    def with_failure(self, failure: JobFailure, now_ms: int) -> JobStatusFile:
        """Return it with one more failure in the history; `failure` is unchanged."""
        failures = with_failure(self.failures, failure, self.attempt, now_ms)
        return replace(self, failures=failures, failure_count=self.failure_count + 1)
