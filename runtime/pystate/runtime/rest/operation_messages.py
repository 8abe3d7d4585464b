"""What is triggered by one request and asked for by another: savepoints, checkpoints, deletions."""

from __future__ import annotations

from typing import Literal

from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.failure_messages import FailureCause, OurError
from pystate.runtime.rest.message import HexId, RestMessage


class TriggerResponse(RestMessage):
    """What a trigger is answered with.

    Attributes:
        request_id: What to ask for its result with.
    """

    request_id: HexId = entry("request-id")


class QueueStatus(RestMessage):
    """Whether something is complete."""

    id: Literal["IN_PROGRESS", "COMPLETED"]

    @property
    def is_completed(self) -> bool:
        """Whether it is."""
        return self.id == "COMPLETED"


IN_PROGRESS = QueueStatus(id="IN_PROGRESS")
COMPLETED = QueueStatus(id="COMPLETED")


class OperationProgress(RestMessage):
    """How far a snapshot is, as far as that is known.

    Attributes:
        acknowledged: Subtasks that have acknowledged.
        total: All of them.
        bytes: What they have written.
        waits_for_epoch: The epoch whose end the barrier waits for.
        epoch_running: For how many ms that has run.
        waits_since: Since when the barrier waits.
    """

    acknowledged: int | None = unless_none(default=None)
    total: int | None = unless_none(default=None)
    bytes: int | None = unless_none(default=None)
    waits_for_epoch: int | None = unless_none(default=None)
    epoch_running: int | None = unless_none(default=None)
    waits_since: int | None = unless_none(default=None)


class SavepointInfo(RestMessage):
    """What became of a savepoint, or of a stop with one: one of the two.

    Attributes:
        location: Where it is.
        failure_cause: Why there is none.
    """

    location: str | None = unless_none(default=None)
    failure_cause: FailureCause | None = unless_none("failure-cause", default=None)


class CheckpointInfo(RestMessage):
    """What became of a checkpoint: one of the two.

    Attributes:
        checkpoint_id: Its id.
        failure_cause: Why there is none. Flink spells it so here.
    """

    checkpoint_id: int | None = unless_none("checkpointId", default=None)
    failure_cause: FailureCause | None = unless_none("failureCause", default=None)


class AsynchronousOperationInfo(RestMessage):
    """What became of a deletion or a rescale.

    Attributes:
        failure_cause: Why it failed; missing where it did not.
    """

    failure_cause: FailureCause | None = unless_none("failure-cause", default=None)


class RescalingSteps(RestMessage):
    """What a rescale has done so far.

    Attributes:
        lines: What `pystate rescale` would have told.
        job_id: The job that runs now, once that is known: the successor, or the one that was started as before.
    """

    lines: tuple[str, ...]
    job_id: HexId | None = unless_none("job-id", default=None)


class RescalingInfo(RestMessage):
    """The last rescale of a job by the job manager, or its last return to an earlier state.

    Attributes:
        request_id: What to ask for its result with.
        parallelism: The new parallelism; that of the job if it is unreadable.
        snapshot: What the job is put back to; null of a rescale.
        status: Whether it is complete.
        managers: How many job managers have worked at it: each after the first goes on where one has died.
        step: What was told last.
        job_id: The job that runs after it; null before, and where none does.
        failure: Why it failed; null where it did not.
        unfinished: Whether it has failed so that no job runs, and `pystate rescale` can still start one.
        unreadable: Whether what an earlier job manager has written down of it can't be read, so that it is not gone on with.
    """

    request_id: HexId = entry("request-id")
    parallelism: int
    snapshot: str | None
    status: QueueStatus
    managers: int
    step: str
    job_id: HexId | None = entry("job-id")
    failure: OurError | None
    unfinished: bool = False
    unreadable: bool = False


class RescalingResult(RestMessage):
    """A rescale, or a return to an earlier state, under way or done.

    Attributes:
        status: Whether it is complete.
        operation: What became of it; null before.
        pystate: What it has done.
    """

    status: QueueStatus
    operation: AsynchronousOperationInfo | None = None
    pystate: RescalingSteps


class SavepointResult(RestMessage):
    """A savepoint, or a stop with one, under way or done.

    Attributes:
        status: Whether it is complete.
        operation: What became of it; null before.
        pystate: How far it is; missing once it is complete.
    """

    status: QueueStatus
    operation: SavepointInfo | None = None
    pystate: OperationProgress | None = unless_none(default=None)

    @property
    def failure_cause(self) -> FailureCause | None:
        """Why it failed, if it has."""
        return None if self.operation is None else self.operation.failure_cause

    @property
    def outcome(self) -> str:
        """Where the savepoint is.

        Raises:
            UnreadableAnswerError: It doesn't say so.
        """
        if self.operation is None or self.operation.location is None:
            what = "no savepoint is in it"
            raise self.plain_error(what)
        return self.operation.location


class CheckpointResult(RestMessage):
    """A checkpoint under way or done.

    Attributes:
        status: Whether it is complete.
        operation: What became of it; null before.
        pystate: How far it is; missing once it is complete.
    """

    status: QueueStatus
    operation: CheckpointInfo | None = None
    pystate: OperationProgress | None = unless_none(default=None)

    @property
    def failure_cause(self) -> FailureCause | None:
        """Why it failed, if it has."""
        return None if self.operation is None else self.operation.failure_cause

    @property
    def outcome(self) -> int:
        """The id of the checkpoint.

        Raises:
            UnreadableAnswerError: It doesn't say so.
        """
        if self.operation is None or self.operation.checkpoint_id is None:
            what = "no checkpoint is in it"
            raise self.plain_error(what)
        return self.operation.checkpoint_id


class DisposalResult(RestMessage):
    """A deletion under way or done.

    Attributes:
        status: Whether it is complete.
        operation: What became of it; null before.
        pystate: Always missing.
    """

    status: QueueStatus
    operation: AsynchronousOperationInfo | None = None
    pystate: OperationProgress | None = unless_none(default=None)

    @property
    def failure_cause(self) -> FailureCause | None:
        """Why it failed, if it has."""
        return None if self.operation is None else self.operation.failure_cause
