"""The pending checkpoints: their acknowledgements and timeouts. Subtasks and engines report here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from pystate.common.errors import PystateError
from pystate.core.snapshot.operator_state import TaskState
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.confirmed_checkpoints import ConfirmedCheckpoints
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.late_acknowledgements import LateAcknowledgements
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from pystate.runtime.checkpoint.retention.shared_state_files import SharedStateFiles
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.checkpoint.stats.file import StatisticsFile
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics


class PendingCheckpoints:
    """The pending checkpoints, by number.

    Args:
        lock: The coordinator's.
        settings: The options of checkpointing.
        attempt: The current attempt.
        shared: The locations of shared files.
        late: Records what subtasks write too late.
        statistics: Updated along with this object.
        clock: Monotonic seconds.

    Attributes:
        lock: Held during the coordinator's steps, and by engines during theirs.
        is_triggering: Whether a checkpoint is being triggered that may not be added yet.
    """

    def __init__(
        self,
        lock: threading.Condition,
        settings: CheckpointSettings,
        attempt: LiveAttempt,
        shared: SharedStateFiles,
        late: LateAcknowledgements,
        statistics: StatisticsFile,
        clock: Callable[[], float],
    ) -> None:
        self.lock = lock
        self.is_triggering = False
        self._settings = settings
        self._attempt = attempt
        self._shared = shared
        self._late = late
        self._statistics = statistics
        self._clock = clock
        self._confirmed = ConfirmedCheckpoints()
        self._pending: dict[int, PendingCheckpoint] = {}

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterate over them, oldest first."""
        with self.lock:
            return iter(list(self._pending.values()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._pending)

    # -- their beginning and their end

    def restart(self) -> None:
        """Begin an attempt: its slots only know of the completed checkpoint that they were restored from."""
        with self.lock:
            self._confirmed.restart()

    def take_in(self, checkpoint: PendingCheckpoint) -> bool:
        """Add a checkpoint that is being triggered: its timeout runs from now on. Return whether the attempt still runs."""
        with self.lock:
            self._statistics.tracker.report_pending(checkpoint)
            self.resume_timeout(checkpoint)
            in_time = self._attempt.runs
            if in_time:
                self._pending[checkpoint.checkpoint_id] = checkpoint
            self.lock.notify_all()
        self._statistics.changed()
        return in_time

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> bool:
        """Let a triggered checkpoint wait for its place.

        Returns:
            Whether it is still wanted: it hasn't failed meanwhile, no other one has taken its place while the storage hung,
            and the attempt hasn't ended.
        """
        with self.lock:
            barriers = self._attempt.barriers
            if barriers is None or not barriers.is_open or checkpoint.is_aborted:
                return False
            barriers.wait_for_place(checkpoint)
            self.lock.notify_all()
            return True

    def let_go(self, checkpoint: PendingCheckpoint) -> None:
        """Remove a checkpoint that has ended."""
        with self.lock:
            self._pending.pop(checkpoint.checkpoint_id, None)
            barriers = self._attempt.barriers
            if barriers is not None:
                barriers.withdraw(checkpoint)
            self.lock.notify_all()

    def confirm(self, checkpoint: PendingCheckpoint) -> None:
        """Record that slots may refer to the files of a completed checkpoint."""
        with self.lock:
            if not checkpoint.is_savepoint:
                self._confirmed.add(checkpoint.checkpoint_id, checkpoint.confirmed)

    # -- subtasks

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> AckResult:
        """Process the acknowledgement of a subtask."""
        with self.lock:
            checkpoint = self._pending.get(checkpoint_id)
            if checkpoint is None:
                self._late.report(checkpoint_id)
                self.lock.notify_all()
                return AckResult.UNKNOWN
            result = checkpoint.acknowledge(uid, subtask, state)
            if result is AckResult.SUCCESS:
                self._statistics.tracker.report_ack(checkpoint_id, uid, subtask, metrics)
                too_large = self._settings.check_size(checkpoint.location, checkpoint.state_size)
                if too_large is not None:
                    checkpoint.give_up(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, too_large)
                # nobody waits for one of many; waking the coordinator's thread costs more than all the rest
                if too_large is not None or checkpoint.is_fully_acknowledged:
                    self.lock.notify_all()
        return result

    def decline(self, checkpoint_id: int, error: PystateError, reason: CheckpointFailureReason) -> None:
        """Process the failure of a subtask's part of a checkpoint."""
        with self.lock:
            checkpoint = self._pending.get(checkpoint_id)
            if checkpoint is None:
                self._late.report(checkpoint_id)
            else:
                checkpoint.give_up(reason, error)
            self.lock.notify_all()

    def slot_answered(self, index: int) -> None:
        """Record that the subtasks of that index don't hang in a barrier."""
        with self.lock:
            for checkpoint in self:
                checkpoint.slot_answered(index)

    # -- engines

    def barrier(self, checkpoint: PendingCheckpoint) -> CheckpointBarrier:
        """Return the barrier of a placed checkpoint, the same each time."""
        with self.lock:
            target = self._shared.target(checkpoint.checkpoint_id)
            if checkpoint.confirmed is None and target[0] is not None and not checkpoint.is_savepoint:
                checkpoint.confirmed = self._confirmed.barrier()  # once: all subtasks get the same answer
            return checkpoint.barrier(target, self._settings.inline_threshold(checkpoint.location))

    def resume_timeout(self, checkpoint: PendingCheckpoint) -> None:
        """Let a checkpoint's timeout run from now on: its barrier is placed, or can be."""
        with self.lock:
            checkpoint.deadline = self._clock() + self._settings.timeout_s
            self._statistics.tracker.report_waiting(checkpoint.checkpoint_id, None)

    def pause_timeout(self, checkpoint: PendingCheckpoint, waits_for_epoch: int) -> None:
        """Suspend a checkpoint's timeout while its barrier waits for its place, however long that takes.

        Args:
            checkpoint: Which.
            waits_for_epoch: The epoch whose end it waits for, for the statistics.
        """
        with self.lock:
            checkpoint.deadline = None
            self._statistics.tracker.report_waiting(checkpoint.checkpoint_id, waits_for_epoch)

    def settle_cuts(self) -> None:
        """Record which cuts can be restored by now. Reads files, so must not be called under the lock."""
        with self.lock:
            open_cuts = [one for one in self if not one.committed] if self._attempt.runs else []
        for checkpoint in open_cuts:
            checkpoint.settle_cut()

    @property
    def hold(self) -> bool:
        """Whether a savepoint after which nothing may follow is pending or complete."""
        with self.lock:
            return self._attempt.stopped or any(one.request.hold for one in self)

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint that isn't a savepoint is pending."""
        return any(not one.is_savepoint for one in self)

    @property
    def has_savepoint(self) -> bool:
        """Whether a savepoint is pending."""
        return any(one.is_savepoint for one in self)

    # -- what ends do to the others

    @property
    def finalizing(self) -> bool:
        """Whether the metadata of a checkpoint is being written."""
        return any(one.finalizing for one in self)

    def older_than(self, checkpoint_id: int) -> list[PendingCheckpoint]:
        """Return the checkpoints that are obsolete once that one is complete; savepoints never are."""
        return [one for one in self if one.checkpoint_id < checkpoint_id and not one.is_savepoint]

    def lowest_base(self, besides: Iterable[PendingCheckpoint]) -> int | None:
        """Return the oldest checkpoint whose files a pending one may refer to; None if there is none.

        Args:
            besides: Checkpoints that don't count.
        """
        gone = {id(one) for one in besides}
        bases = (one.confirmed.base for one in self if one.confirmed is not None and id(one) not in gone)
        return min(bases, default=None)

    # -- how far they are

    def savepoint_progress(self, subtasks: int) -> dict[str, int]:
        """Return of the savepoint in progress: `acknowledged` subtasks, the `total` of them, `bytes` so far.

        With what its barrier waits for, see `BarrierPlacement.waits`; `waits_since` is then when it was triggered, ms since
        1970.

        Args:
            subtasks: How many the job has.
        """
        with self.lock:
            savepoint = next((one for one in self if one.is_savepoint), None)
            barriers = self._attempt.barriers
            waits = {} if barriers is None or (savepoint is not None and savepoint.cut is not None) else barriers.waits()
            if savepoint is None:
                return {"acknowledged": 0, "total": subtasks, "bytes": 0, **waits}
            if waits:
                waits["waits_since"] = savepoint.trigger_timestamp
            counts = {"acknowledged": savepoint.acknowledged_count, "total": savepoint.total_count}
            return {**counts, "bytes": savepoint.state_size, **waits}
