"""A checkpoint in progress, from its trigger to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.errors import CheckpointFailedError, PystateError, SnapshotError, SubtaskHangsError
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType, SourcePosition
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.confirmed_checkpoints import Confirmed
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.source_cut import SourceCut

_NAMED = 5


class AckResult(Enum):
    """The result of an acknowledgement. None is an error: networks repeat and delay messages."""

    SUCCESS = "SUCCESS"
    DUPLICATE = "DUPLICATE"  # the subtask had acknowledged
    UNKNOWN = "UNKNOWN"  # the checkpoint has no such subtask
    DISCARDED = "DISCARDED"  # the checkpoint has ended; what the subtask wrote is unowned


class PendingCheckpoint:
    """A checkpoint in progress. It is ready when all subtasks have acknowledged and the source position is known.

    Args:
        checkpoint_id: Its number.
        epoch: The epoch after which its barrier is placed, set later; None until then, and for an engine without epochs.
        checkpoint_type: Checkpoint or savepoint.
        format: How keyed state is written.
        trigger_timestamp: When it was triggered, ms since 1970.
        tasks: The (uid, subtask index) that must acknowledge.
        location: Its directory.
        trigger_ids: The requests it answers.
        message: The user's message in it.
        request: The request; None if nobody waits for it.
        deadline: When it expires, on the coordinator's clock; None while its barrier waits for its place.

    Attributes:
        source_position: How far the sources were read; None until it is known, and where nothing has been read.
        failure_reason: Why it was aborted, None if it wasn't.
        cut: The source positions at its barrier, once known.
        committed: Whether the cut can be restored.
        alignment: Milliseconds by task.
        created: Whether its directory was created by the job: its content is deleted if it fails.
        finalizing: Whether its `_metadata` is being written: the end of the attempt then doesn't abort it.
        confirmed: The completed checkpoints that its barrier carries, once it is placed.
    """

    def __init__(
        self,
        checkpoint_id: int,
        epoch: int | None = None,
        *,
        checkpoint_type: CheckpointType,
        format: SavepointFormatType,
        trigger_timestamp: int,
        tasks: Iterable[tuple[str, int]],
        location: SnapshotLocation,
        trigger_ids: Iterable[str] = (),
        message: str | None = None,
        request: CheckpointRequest | None = None,
        deadline: float | None = None,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.epoch = epoch
        self.checkpoint_type = checkpoint_type
        self.format = format
        self.trigger_timestamp = trigger_timestamp
        self.location = location
        self.trigger_ids = list(trigger_ids)
        self.message = message
        self.source_position: SourcePosition | None = None
        self.failure_reason: CheckpointFailureReason | None = None
        self.request = request or CheckpointRequest(checkpoint_type)
        self.deadline = deadline
        self.cut: SourceCut | None = None
        self.committed = False
        self._handed_out_at: float | None = None  # on the coordinator's clock
        self._unanswered: set[int] = set()  # the slots that have got the barrier and not answered
        self._given_up: tuple[CheckpointFailureReason, PystateError] | None = None
        self.alignment: dict[str, int | None] = {}
        self.created = False
        self.finalizing = False
        self.confirmed: Confirmed | None = None
        self._tasks = frozenset(tasks)
        self._states: dict[str, dict[int, TaskState]] = {uid: {} for uid, _ in self._tasks}
        self._acknowledged = 0
        self._state_size = 0
        self._source_committed = False
        self._completed = False

    def acknowledge(self, uid: str, subtask: int, state: TaskState) -> AckResult:
        """Add the state handles of a subtask, which then doesn't hang in the barrier."""
        if self._completed or self.is_aborted:
            return AckResult.DISCARDED
        if (uid, subtask) not in self._tasks:
            return AckResult.UNKNOWN
        if subtask in self._states[uid]:
            return AckResult.DUPLICATE
        self._states[uid][subtask] = state
        self._acknowledged += 1
        self._state_size += state.state_size
        return AckResult.SUCCESS

    def mark_source_committed(self, position: SourcePosition | None) -> None:
        """Record that the input up to the cut is committed, at `position`; None if nothing has been read yet."""
        self.source_position = position
        self._source_committed = True

    @property
    def commits(self) -> bool:
        """Whether functions may commit because of it: not for a savepoint, unless the job ends after it."""
        return self.checkpoint_type is not CheckpointType.SAVEPOINT or self.request.hold

    @property
    def acknowledged_count(self) -> int:
        """How many subtasks have acknowledged."""
        return self._acknowledged

    @property
    def total_count(self) -> int:
        """How many subtasks must acknowledge."""
        return len(self._tasks)

    @property
    def tasks(self) -> frozenset[tuple[str, int]]:
        """The (uid, subtask) that must acknowledge."""
        return self._tasks

    @property
    def missing(self) -> set[tuple[str, int]]:
        """The (uid, subtask) that haven't acknowledged."""
        return {(uid, subtask) for uid, subtask in self._tasks if subtask not in self._states[uid]}

    @property
    def state_size(self) -> int:
        """Bytes of state acknowledged so far."""
        return self._state_size

    @property
    def is_fully_acknowledged(self) -> bool:
        """Whether all subtasks have acknowledged."""
        return self._acknowledged == len(self._tasks)

    @property
    def is_ready(self) -> bool:
        """Whether it can be completed."""
        return not self.is_aborted and self.is_fully_acknowledged and self._source_committed

    @property
    def cut_epoch(self) -> int:
        """The epoch of the cut as in metadata: -1 for before the first, and for an engine without epochs."""
        return -1 if self.epoch is None else self.epoch

    @property
    def is_completed(self) -> bool:
        """Whether it has completed."""
        return self._completed

    @property
    def is_savepoint(self) -> bool:
        """Whether it is a savepoint."""
        return self.checkpoint_type is CheckpointType.SAVEPOINT

    @property
    def is_aborted(self) -> bool:
        """Whether it has failed."""
        return self.failure_reason is not None

    def operator_states(self, task_uid: str, operator_uid: str) -> dict[int, OperatorSubtaskState]:
        """Return what the subtasks of a task acknowledged for one of its operators, by index, without empty ones."""
        return {
            subtask: task.operators[operator_uid]
            for subtask, task in sorted(self._states.get(task_uid, {}).items())
            if operator_uid in task.operators
        }

    def complete(self, metadata: CheckpointMetadata, completion_timestamp: int) -> CompletedCheckpoint:
        """Complete it: its `_metadata` is on the storage.

        Args:
            metadata: What was written.
            completion_timestamp: Now, ms since 1970.

        Raises:
            ValueError: It is not ready, has ended before, or the metadata is another's.
        """
        if self._completed or not self.is_ready:
            message = f"Checkpoint {self.checkpoint_id} can't be completed: {self._standing()}."
            raise ValueError(message)
        if (metadata.checkpoint_id, metadata.epoch) != (self.checkpoint_id, self.cut_epoch):
            message = f"The metadata of checkpoint {metadata.checkpoint_id} is not that of {self.checkpoint_id}."
            raise ValueError(message)
        self._completed = True
        return CompletedCheckpoint(metadata, self.location.uri, completion_timestamp)

    def abort(self, reason: CheckpointFailureReason) -> bool:
        """Abort it; return whether this call did. The first reason is kept."""
        if self._completed or self.is_aborted:
            return False
        self.failure_reason = reason
        return True

    def barrier(self, shared: tuple[str | None, str], inline_threshold: int) -> CheckpointBarrier:
        """Return what the subtasks get.

        Args:
            shared: The URI of the directory for a checkpoint's shared files, or None, and how their names begin.
            inline_threshold: Up to this many bytes of one state travel in its handle.
        """
        directory, prefix = (None, "") if self.is_savepoint else shared
        return CheckpointBarrier(
            checkpoint_id=self.checkpoint_id,
            epoch=self.epoch,
            location=self.location.state_uri,
            inline_threshold=inline_threshold,
            trigger_timestamp=self.trigger_timestamp,
            shared=directory,
            shared_prefix=prefix,
            savepoint=self.is_savepoint,
            native=self.is_savepoint and self.format is SavepointFormatType.NATIVE,
            full=self.request.full,
            completed=() if self.confirmed is None else self.confirmed.completed,
            hold=self.request.hold,
            last=self.request.last,
        )

    def give_up(self, reason: CheckpointFailureReason, error: PystateError) -> None:
        """Record why it can't complete; the first reason is kept."""
        if self._given_up is None:
            self._given_up = reason, error

    def hand_out(self, now: float) -> None:
        """Record that all subtasks get its barrier; from now on the timeout of their synchronous part runs."""
        self._handed_out_at = now
        self._unanswered = {subtask for _, subtask in self._tasks}

    def slot_answered(self, index: int) -> None:
        """Record that the subtasks of that index don't hang in the barrier."""
        self._unanswered.discard(index)

    def capture(self, cut: Callable[[], SourceCut]) -> None:
        """Set the source positions at the cut."""
        try:
            self.cut = cut()
        except SnapshotError as error:
            self.give_up(CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, error)

    def settle_cut(self) -> None:
        """Record whether the cut can be restored by now."""
        if self.committed or self.cut is None:
            return
        try:
            self.committed = self.cut.settle()
        except SnapshotError as error:
            self.give_up(CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, error)

    def deadlines(self, timeout_s: float) -> list[float]:
        """Return when it, or the synchronous part of a subtask, times out."""
        own = [] if self.deadline is None else [self.deadline]
        handed_out = self._handed_out_at
        return own if handed_out is None or not self._may_hang else [*own, handed_out + timeout_s]

    @property
    def _may_hang(self) -> bool:
        return bool(self._unanswered) and not self.is_fully_acknowledged

    def failure(
        self, now: float, timeout_s: float, *, syncing: bool
    ) -> tuple[CheckpointFailureReason, PystateError, bool] | None:
        """Return why it must be aborted, and whether a subtask hangs; None if it needn't be.

        Args:
            now: On the coordinator's clock.
            timeout_s: How long it may take.
            syncing: All subtasks are being asked at once, and some have not answered.
        """
        if self.is_completed:
            return None
        if self._given_up is not None:
            return *self._given_up, False
        expired = self.deadline is not None and now >= self.deadline
        handed_out = self._handed_out_at
        hanging: set[tuple[str, int]] = set()
        if handed_out is not None and now >= handed_out + timeout_s and self._may_hang:
            hanging = {one for one in self.missing if one[1] in self._unanswered}
        if expired and syncing:
            hanging |= self.missing
        if not expired and not hanging:
            return None
        late = f" Missing: {_named(self.missing)}." if self.missing else ""
        error: PystateError = CheckpointFailedError(f"The checkpoint did not complete within {timeout_s:g} s.{late}")
        if hanging:
            error = _hang(hanging, self.checkpoint_id, timeout_s)
        return CheckpointFailureReason.CHECKPOINT_EXPIRED, error, bool(hanging)

    def _standing(self) -> str:
        if self._completed:
            return "it is complete"
        if self.failure_reason is not None:
            return f"it was aborted, {self.failure_reason.name}"
        return (
            f"{self.acknowledged_count} of {self.total_count} subtasks acknowledged, epoch {self.epoch}, source position "
            f"{'known' if self._source_committed else 'unknown'}"
        )


def _named(subtasks: set[tuple[str, int]]) -> str:
    named = ", ".join(f"subtask {index} of {uid!r}" for uid, index in sorted(subtasks)[:_NAMED])
    return f"{named} and {len(subtasks) - _NAMED} more" if len(subtasks) > _NAMED else named


def _hang(subtasks: set[tuple[str, int]], checkpoint_id: int, timeout_s: float) -> SubtaskHangsError:
    message = f"Not all took their part of checkpoint {checkpoint_id} within {timeout_s:g} s. Missing: {_named(subtasks)}."
    hint = (
        "look where their functions wait (snapshot_state, notify_checkpoint_complete), or raise "
        f"{CheckpointingOptions.CHECKPOINTING_TIMEOUT.key}"
    )
    return SubtaskHangsError(message, hint=hint)
