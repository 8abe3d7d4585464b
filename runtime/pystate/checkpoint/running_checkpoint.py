"""A checkpoint on its way: asked for, then triggered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.confirmed_checkpoints import Confirmed
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.common.errors import CheckpointFailedError, PystateError, SnapshotError, SubtaskHangsError
from pystate.common.options import CheckpointingOptions
from pystate.snapshot.barrier import CheckpointBarrier
from pystate.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.snapshot.source_cut import SourceCut
from pystate.snapshot.storage import SnapshotLocation

_NAMED = 5


@dataclass
class CheckpointRequest:
    """A checkpoint someone wants, until it is triggered.

    Attributes:
        future: Gets the completed checkpoint, or what went wrong.
        location: Where a savepoint goes; None where that follows from the checkpoint's number.
        hold: No epoch may begin behind it, unless it fails.
        message: What the snapshot says about itself.
        format: How keyed state is written.
        full: Whether a checkpoint refers to no older one's files, where the job's are incremental.
    """

    checkpoint_type: CheckpointType
    future: Future[CompletedCheckpoint] = field(default_factory=Future)
    location: SnapshotLocation | None = None
    hold: bool = False
    message: str | None = None
    format: SavepointFormatType = SavepointFormatType.CANONICAL
    full: bool = False


@dataclass
class RunningCheckpoint:
    """A triggered checkpoint and what belongs to it in the driver.

    Attributes:
        pending: Who has acknowledged what.
        request: What it answers.
        location: Where it is written.
        deadline: When it expires, on the coordinator's clock; None while its barrier waits for its place.
        cut: How far the sources were read where its barrier stands, once that is known.
        committed: The cut can be restored from.
        handed_out: When its barrier was handed to which subtasks, on the coordinator's clock.
        error: Why it has to be given up.
        alignment: Milliseconds by task.
        created: Its directory is the job's own: what lies there is deleted if it fails.
        finalizing: Its `_metadata` is being written: too late to be given up by the end of the attempt.
        confirmed: What its barrier tells of completed checkpoints, once it is placed.
    """

    pending: PendingCheckpoint
    request: CheckpointRequest
    location: SnapshotLocation
    deadline: float | None
    cut: SourceCut | None = None
    committed: bool = False
    handed_out: dict[tuple[str, int], float] = field(default_factory=dict)
    error: PystateError | None = None
    alignment: dict[str, int | None] = field(default_factory=dict)
    created: bool = False
    finalizing: bool = False
    confirmed: Confirmed | None = None

    def barrier(self, epoch: int | None, shared: tuple[str | None, str], inline_threshold: int) -> CheckpointBarrier:
        """Return what the subtasks get.

        Args:
            epoch: Behind which one the cut stands, for an engine that has epochs.
            shared: The URI of the directory for a checkpoint's shared files, or None, and how their names begin.
            inline_threshold: Up to this many bytes of one state travel in its handle.
        """
        pending = self.pending
        directory, prefix = (None, "") if pending.is_savepoint else shared
        return CheckpointBarrier(
            checkpoint_id=pending.checkpoint_id,
            epoch=epoch,
            location=self.location.state_uri,
            inline_threshold=inline_threshold,
            trigger_timestamp=pending.trigger_timestamp,
            shared=directory,
            shared_prefix=prefix,
            savepoint=pending.is_savepoint,
            native=pending.is_savepoint and pending.format is SavepointFormatType.NATIVE,
            full=self.request.full,
            completed=() if self.confirmed is None else self.confirmed.completed,
        )

    def capture(self, cut: Callable[[], SourceCut]) -> None:
        """Take in how far the sources were read at the cut."""
        try:
            self.cut = cut()
        except SnapshotError as error:
            self.error = error

    def settle_cut(self) -> None:
        """Take note whether the cut can be restored from by now."""
        if self.committed or self.cut is None:
            return
        try:
            self.committed = self.cut.settle()
        except SnapshotError as error:
            self.error = self.error or error

    def deadlines(self, timeout_s: float) -> list[float]:
        """Return when it, or a subtask in its synchronous part, will have taken too long."""
        own = [] if self.deadline is None else [self.deadline]
        return own + [since + timeout_s for since in self.handed_out.values()]

    def failure(
        self, now: float, timeout_s: float, *, syncing: bool
    ) -> tuple[CheckpointFailureReason, PystateError, bool] | None:
        """Return why it must be given up, and whether a subtask hangs; None where it needn't be.

        Args:
            now: On the coordinator's clock.
            timeout_s: How long it may take.
            syncing: All subtasks were asked between two epochs, and some have not answered.
        """
        if self.pending.is_completed:
            return None
        if self.error is not None:
            return CheckpointFailureReason.CHECKPOINT_DECLINED, self.error, False
        expired = self.deadline is not None and now >= self.deadline
        hanging = {subtask for subtask, since in self.handed_out.items() if now >= since + timeout_s}
        if expired and syncing:
            hanging |= self.pending.missing
        if not expired and not hanging:
            return None
        error: PystateError = CheckpointFailedError(f"The checkpoint did not complete within {timeout_s:g} s.")
        if hanging:
            error = _hang(hanging, self.pending.checkpoint_id, timeout_s)
        return CheckpointFailureReason.CHECKPOINT_EXPIRED, error, bool(hanging)


def _hang(subtasks: set[tuple[str, int]], checkpoint_id: int, timeout_s: float) -> SubtaskHangsError:
    named = ", ".join(f"subtask {index} of {uid!r}" for uid, index in sorted(subtasks)[:_NAMED])
    more = f" and {len(subtasks) - _NAMED} more" if len(subtasks) > _NAMED else ""
    message = f"Not all took their part of checkpoint {checkpoint_id} within {timeout_s:g} s. Missing: {named}{more}."
    hint = (
        "look where their functions wait (snapshot_state, notify_checkpoint_complete), or raise "
        f"{CheckpointingOptions.CHECKPOINTING_TIMEOUT.key}"
    )
    return SubtaskHangsError(message, hint=hint)


class RunningCheckpoints:
    """The checkpoints under way, by number. Free of threads: the coordinator holds its lock around every call."""

    def __init__(self) -> None:
        self._running: dict[int, RunningCheckpoint] = {}

    def __iter__(self) -> Iterator[RunningCheckpoint]:
        """Iterate over them, oldest first."""
        return iter(list(self._running.values()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._running)

    def get(self, checkpoint_id: int) -> RunningCheckpoint | None:
        """Return the one of that number."""
        return self._running.get(checkpoint_id)

    def add(self, checkpoint: RunningCheckpoint) -> None:
        """Take in a checkpoint that is being triggered."""
        self._running[checkpoint.pending.checkpoint_id] = checkpoint

    def remove(self, checkpoint: RunningCheckpoint) -> None:
        """Let one go that has ended."""
        self._running.pop(checkpoint.pending.checkpoint_id, None)

    def of_epoch(self, epoch: int) -> list[RunningCheckpoint]:
        """Return those whose cut stands behind that epoch."""
        return [one for one in self if one.pending.epoch == epoch]

    def older_than(self, checkpoint_id: int) -> list[RunningCheckpoint]:
        """Return the checkpoints that are of no use once that one is complete; savepoints always are."""
        return [one for one in self if one.pending.checkpoint_id < checkpoint_id and not one.pending.is_savepoint]

    def lowest_base(self, besides: Iterable[RunningCheckpoint]) -> int | None:
        """Return the oldest checkpoint whose files one under way may name; None for none.

        Args:
            besides: Those that don't count.
        """
        gone = {id(one) for one in besides}
        bases = (one.confirmed.base for one in self if one.confirmed is not None and id(one) not in gone)
        return min(bases, default=None)

    @property
    def hold_epochs(self) -> bool:
        """Whether there is a savepoint behind which no epoch may begin."""
        return any(one.request.hold for one in self)

    @property
    def for_recovery(self) -> bool:
        """Whether there is one that is no savepoint."""
        return any(not one.pending.is_savepoint for one in self)

    @property
    def finalizing(self) -> bool:
        """Whether there is one whose metadata is being written."""
        return any(one.finalizing for one in self)

    def savepoint(self) -> RunningCheckpoint | None:
        """Return the oldest savepoint."""
        return next((one for one in self if one.pending.is_savepoint), None)
