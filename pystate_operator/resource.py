"""What a `PystateJob` asks for, what is remembered of it, and what is seen of its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from pystate.common.text.plain_data import PlainData
from pystate.runtime.job_folder.content import FileContent


class UpgradeMode(str, Enum):
    """What a new version starts from, named as by Flink's Kubernetes operator."""

    SAVEPOINT = "savepoint"
    LAST_STATE = "last-state"
    STATELESS = "stateless"


class DesiredState(str, Enum):
    """Whether the job is to run."""

    RUNNING = "running"
    SUSPENDED = "suspended"


@dataclass(frozen=True)
class Kept(PlainData):
    """The base of what is remembered: entries with defaults may be missing, where an older version has written it."""

    missing_is_default: ClassVar[bool] = True


@dataclass(frozen=True)
class Version(Kept):
    """A program with its arguments, parallelism and options.

    Attributes:
        fingerprint: Tells versions apart.
        submission: What it is submitted with, as JSON.
    """

    fingerprint: str
    submission: str = ""


@dataclass(frozen=True)
class Spec:
    """What a resource asks for.

    Attributes:
        version: What is to run.
        state: Whether it is to.
        upgrade_mode: What a new version starts from.
        initial_savepoint_path: What the first version starts from; None for nothing.
        readiness_timeout_s: How long a new version may take to be RUNNING with a completed checkpoint.
        rollback: Whether the version before comes back where it takes longer.
        blue_green: Whether a new version runs beside the old one until it is ready.
        savepoint_trigger_nonce: Another number asks for a savepoint.
        history_max_count: How many savepoints are kept.
        history_max_age_s: How old they may get.
        deleted: Whether the resource is to go.
    """

    version: Version
    state: DesiredState = DesiredState.RUNNING
    upgrade_mode: UpgradeMode = UpgradeMode.SAVEPOINT
    initial_savepoint_path: str | None = None
    readiness_timeout_s: float = 300
    rollback: bool = True
    blue_green: bool = False
    savepoint_trigger_nonce: int = 0
    history_max_count: int = 10
    history_max_age_s: float = 7 * 86_400
    deleted: bool = False


class JobState(Enum):
    """The state of a job, as far as it matters here."""

    STARTING = "starting"  # not RUNNING yet, or again
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether it won't run again."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELED)


@dataclass(frozen=True)
class Savepoint(Kept):
    """A savepoint that was taken on behalf of a resource.

    Attributes:
        path: Where it is.
        taken_at: When it was completed, in seconds.
    """

    path: str
    taken_at: float


@dataclass(frozen=True)
class ObservedJob:
    """What the job manager says of a job.

    Attributes:
        state: Its state.
        latest_checkpoint: Where its latest completed checkpoint is that is there still; None if it has none.
        savepoints: Its savepoints that were taken on behalf of its resource, the oldest first; some may have been deleted.
        stopped_with: The savepoint that it was stopped with; None if it wasn't.
        stopping: Whether it is being stopped or cancelled.
        taking_savepoint: Whether a savepoint is being taken.
    """

    state: JobState
    latest_checkpoint: str | None = None
    savepoints: tuple[Savepoint, ...] = ()
    stopped_with: str | None = None
    stopping: bool = False
    taking_savepoint: bool = False

    @property
    def newest(self) -> str:
        """Its newest savepoint; empty for none."""
        return self.savepoints[-1].path if self.savepoints else ""

    @property
    def has_proven_itself(self) -> bool:
        """Whether it runs and has completed a checkpoint, or was done before anybody has seen that."""
        if self.state is JobState.FINISHED:
            return self.stopped_with is None
        return self.state is JobState.RUNNING and self.latest_checkpoint is not None


@dataclass(frozen=True)
class Observation:
    """What is seen at a time.

    Attributes:
        jobs: The jobs that the job manager knows, by their names.
        reachable: Whether it answers at all; without an answer nothing is decided.
    """

    jobs: dict[str, ObservedJob]
    reachable: bool = True


@dataclass(frozen=True)
class Deployment(Kept):
    """A job that was submitted, or is about to be.

    Attributes:
        name: Its name, which no other job has.
        version: What it runs.
        start: The snapshot that it starts from; None for none.
        since: When it was decided, in seconds.
        seen: Whether the job manager has known it.
        stable: Whether it was RUNNING with a completed checkpoint.
        latest: Its latest checkpoint, as last seen.
    """

    name: str
    version: Version
    start: str | None
    since: float
    seen: bool = False
    stable: bool = False
    latest: str | None = None

    @property
    def state_path(self) -> str | None:
        """The newest state that is known of it."""
        return self.latest or self.start


class Phase(Enum):
    """How far a resource is."""

    IDLE = "idle"  # nothing runs: not yet, or not any more
    DEPLOYED = "deployed"  # there is a job, or it is being submitted
    STOPPING = "stopping"
    GONE = "gone"  # the resource may go


class Stop(Enum):
    """How a job is stopped, which says what its successor starts from."""

    WITH_SAVEPOINT = "with savepoint"
    KEEPING_CHECKPOINT = "keeping checkpoint"
    DISCARDING = "discarding"


class GreenStep(Enum):
    """How far a new version is that runs beside the old one."""

    TAKING = "taking"  # the savepoint of the old one
    TRYING = "trying"
    PROMOTING = "promoting"  # the old one is being cancelled
    ABORTING = "aborting"  # the new one is being cancelled


@dataclass(frozen=True)
class Rollback(Kept):
    """What comes back if a new version doesn't prove itself.

    Attributes:
        version: The last one that did.
        state: What it was stopped with; None where it had none to keep.
    """

    version: Version
    state: str | None


@dataclass(frozen=True)
class Memory(FileContent):
    """What is remembered of a resource between two looks: a part of its status.

    Attributes:
        phase: How far it is.
        sequence: How many jobs there have been.
        current: The job.
        state: What the next job starts from.
        ever_ran: Whether a job was ever seen: there may be state to lose.
        stop: How the job is being stopped.
        rolling_back: Whether it is stopped because it hasn't proven itself.
        rollback: What comes back then.
        failed: The fingerprint of a version that was rolled back, which isn't tried again.
        green: The new version beside the old one.
        green_step: How far that is.
        savepoints: The history, the oldest first.
        nonce: The last savepoint_trigger_nonce that was answered.
        taken_before: The newest savepoint of the job, empty for none, when another one was asked for; None if none is.
        error: What is wrong, for people.
    """

    title: ClassVar[str] = "What the operator remembers of the resource"
    version: ClassVar[int | None] = 1
    has_checksum: ClassVar[bool] = True
    missing_is_default: ClassVar[bool] = True

    phase: Phase = Phase.IDLE
    sequence: int = 0
    current: Deployment | None = None
    state: str | None = None
    ever_ran: bool = False
    stop: Stop | None = None
    rolling_back: bool = False
    rollback: Rollback | None = None
    failed: str | None = None
    green: Deployment | None = None
    green_step: GreenStep | None = None
    savepoints: tuple[Savepoint, ...] = ()
    nonce: int = 0
    taken_before: str | None = None
    error: str | None = None


class ActionKind(Enum):
    """What is to be done; each may be done twice with the effect of once."""

    SUBMIT = "submit"
    STOP_WITH_SAVEPOINT = "stop with savepoint"
    CANCEL = "cancel"
    TRIGGER_SAVEPOINT = "trigger savepoint"
    DISPOSE_SAVEPOINT = "dispose savepoint"


@dataclass(frozen=True)
class Action:
    """Something to be done.

    Attributes:
        kind: What.
        job: The name of the job; empty for none.
        deployment: What is submitted.
        path: The savepoint that is disposed of.
    """

    kind: ActionKind
    job: str = ""
    deployment: Deployment | None = None
    path: str = ""


class LifecycleState(str, Enum):
    """The state of a resource, named as by Flink's Kubernetes operator."""

    CREATED = "CREATED"
    SUSPENDED = "SUSPENDED"
    UPGRADING = "UPGRADING"
    DEPLOYED = "DEPLOYED"
    STABLE = "STABLE"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    FAILED = "FAILED"
    DELETING = "DELETING"


@dataclass(frozen=True)
class Decision:
    """What is remembered from now on, which is written first, and what is done then.

    Attributes:
        memory: The new status.
        actions: What to do.
        lifecycle: The state of the resource, for people.
    """

    memory: Memory
    lifecycle: LifecycleState
    actions: tuple[Action, ...] = field(default=())
