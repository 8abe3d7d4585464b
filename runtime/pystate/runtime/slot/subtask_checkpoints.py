"""A subtask's part of checkpoints: freeze, write, acknowledge or decline, and learn the outcome."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pystate.common.errors import ControlError, PystateError, UserFunctionError
from pystate.common.time import current_time_ms
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import user_stack_trace
from pystate.core.snapshot.operator_state import TaskState
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.committed_states import CommittedStates
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.runtime.slot.snapshots.frozen_task import FrozenTask
from pystate.runtime.slot.snapshots.in_flight_data import InFlightData
from pystate.runtime.slot.user_code import UserCode

Upload = Callable[[Callable[[], None]], object]
"""Runs functions one after the other on another thread."""


@dataclass(frozen=True)
class Alignment:
    """The alignment metrics of a subtask.

    Attributes:
        alignment_ms: From the first barrier to the last; None if the engine measures it instead of the subtask.
        processed_data: Bytes processed during the alignment.
        buffered_data: Bytes held back during the alignment.
        persisted_data: Bytes of in-flight records in the checkpoint.
        start_delay_ms: From the trigger to the first barrier; None to use the moment when the state is frozen.
        unaligned: Whether barriers overtook records.
    """

    alignment_ms: int | None = None
    processed_data: int = 0
    buffered_data: int = 0
    persisted_data: int = 0
    start_delay_ms: int | None = None
    unaligned: bool = False


@dataclass(frozen=True)
class FrozenCheckpoint:
    """A subtask's part of a checkpoint, after the synchronous part.

    Attributes:
        barrier: The checkpoint's barrier.
        state: The frozen state.
        start_delay_ms: From the trigger to the synchronous part.
        sync_ms: The duration of the synchronous part.
    """

    barrier: CheckpointBarrier
    state: FrozenTask
    start_delay_ms: int
    sync_ms: int

    @property
    def checkpoint_id(self) -> int:
        """The ID of the checkpoint."""
        return self.barrier.checkpoint_id

    def release(self) -> None:
        """Release the frozen state."""
        self.state.release()


class CheckpointResponder(Protocol):
    """Receives the outcome of a subtask's part of a checkpoint."""

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> None:
        """Send the state handles of a checkpoint."""

    def decline(
        self, checkpoint_id: int, uid: str, subtask: int, error: PystateError, reason: CheckpointFailureReason
    ) -> None:
        """Report that this subtask's part of a checkpoint failed."""


class SubtaskCheckpointCoordinator:
    """The checkpoints of one subtask. The engine decides where barriers are, and holds the subtask during each call.

    Args:
        chain: The operator chain.
        responder: Receives the outcomes.
        upload: Runs the asynchronous part of a snapshot on another thread.
        asynchronous: Whether there is an asynchronous part, so that state is written while elements are processed.
        versions: The versions of the state that queries can read; None if there are none.
        fail: Fails the task with an error and the user's stack trace.
    """

    def __init__(
        self,
        chain: OperatorChain,
        responder: CheckpointResponder,
        upload: Upload,
        fail: Callable[[PystateError, str], None],
        *,
        asynchronous: bool,
        versions: CommittedStates | None = None,
    ) -> None:
        self._chain = chain
        self._versions = versions
        self._uid = chain.task.uid
        self._index = chain.subtask
        self._where = chain.task.place_of(chain.subtask)
        self._responder = responder
        self._upload = upload
        self._fail = fail
        self._asynchronous = asynchronous
        self._notifications: list[tuple[int, bool]] = []

    def take(self, barrier: CheckpointBarrier, alignment: Alignment | None = None) -> None:
        """Take the synchronous part, and run the asynchronous part while later elements are processed.

        Args:
            barrier: The checkpoint's barrier.
            alignment: The alignment metrics; None if there is only one input channel.
        """
        frozen = self.freeze(barrier)
        if frozen is not None:
            # a subtask with one upstream side waits for no other channel; otherwise the driver's measurements are needed
            self.finish(frozen, alignment or Alignment(0 if self._chain.task.parallelism == 1 else None))

    def freeze(self, barrier: CheckpointBarrier) -> FrozenCheckpoint | None:
        """Take the synchronous part.

        None is returned if no part is taken: the coordinator has been told then, and callers go on. If the functions or the
        backend fail, the task fails, too; one that just has to decline calls `give_up` here, and returns None.
        """
        started = time.perf_counter()
        start_delay_ms = max(0, current_time_ms() - barrier.trigger_timestamp)
        try:
            frozen = self._chain.on_barrier(barrier)
        except BaseException as error:
            # As in Flink a failure of the synchronous part fails the task, however many failed checkpoints are tolerated: it
            # is caused by the functions or the backend, not by the storage.
            failure, trace = self._failure(error, UserFunctionError), user_stack_trace(error)
            reason = CheckpointFailureReason.TASK_CHECKPOINT_FAILURE
            self.give_up(barrier.checkpoint_id, failure, reason)
            with contextlib.suppress(ControlError):  # the attempt is over
                self._fail(failure, trace)
            return None
        if self._versions is not None and not barrier.savepoint:  # no job restarts from a savepoint by itself
            self._versions.barrier(barrier.checkpoint_id, barrier.trigger_timestamp)
        return FrozenCheckpoint(barrier, frozen, start_delay_ms, int((time.perf_counter() - started) * 1000))

    def finish(self, frozen: FrozenCheckpoint, alignment: Alignment, in_flight: InFlightData | None = None) -> None:
        """Write the frozen state, and acknowledge the checkpoint.

        Args:
            frozen: The frozen state.
            alignment: The alignment metrics.
            in_flight: Records that barriers overtook; None for none.
        """
        if self._asynchronous:
            self._upload(lambda: self._write(frozen, alignment, in_flight))
        else:
            self._write(frozen, alignment, in_flight)

    def give_up(self, checkpoint_id: int, error: PystateError, reason: CheckpointFailureReason) -> None:
        """Report that this subtask takes no part in a checkpoint.

        On the real-time engine it still sends the barrier on, so that no subtask downstream gives another reason: the first
        one counts.
        """
        self._upload(lambda: self._decline(checkpoint_id, error, reason))

    def ended(self, checkpoint_id: int, *, completed: bool) -> bool:
        """Record the outcome of a checkpoint; return whether a function listens for it. May be called from any thread."""
        self._chain.checkpoint_ended(checkpoint_id, completed=completed)
        if self._versions is not None:
            self._versions.checkpoint_ended(checkpoint_id, completed=completed)
        return self._chain.listens

    def tell_later(self, checkpoint_id: int, *, completed: bool) -> None:
        """Have the next `deliver` notify the functions of it. Called while the subtask is held."""
        self._notifications.append((checkpoint_id, completed))

    def deliver(self, has_failed: Callable[[], bool]) -> None:
        """Notify the functions of checkpoint outcomes, on the thread that holds the subtask.

        Args:
            has_failed: Whether the task has failed: its functions are then not notified any more.
        """
        waiting, self._notifications = self._notifications, []
        try:
            for checkpoint_id, completed in waiting:
                if has_failed():
                    return
                with UserCode(self._where, self._fail):
                    if completed:
                        self._chain.notify_checkpoint_complete(checkpoint_id)
                    else:
                        self._chain.notify_checkpoint_aborted(checkpoint_id)
        except PystateError:
            return  # the coordinator knows; what was committed stays committed

    def _write(self, frozen: FrozenCheckpoint, alignment: Alignment, in_flight: InFlightData | None) -> None:
        started, barrier, sync_ms = time.perf_counter(), frozen.barrier, frozen.sync_ms
        location, threshold = self._location(barrier), barrier.inline_threshold
        try:
            try:
                state = frozen.state.write(location, self._index, threshold)
                if in_flight is not None:
                    state = in_flight.add_to(state, self._uid, self._index, location, threshold)
            finally:
                frozen.release()
                if in_flight is not None:
                    in_flight.close()
        except BaseException as error:  # whatever went wrong, the coordinator must not wait for this subtask
            self._decline(barrier.checkpoint_id, self._failure(error), CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
            return
        write_ms = int((time.perf_counter() - started) * 1000)
        metrics = SubtaskCheckpointMetrics(
            ack_timestamp=current_time_ms(),
            sync_ms=sync_ms if self._asynchronous else sync_ms + write_ms,
            async_ms=write_ms if self._asynchronous else 0,
            start_delay_ms=frozen.start_delay_ms if alignment.start_delay_ms is None else alignment.start_delay_ms,
            alignment_ms=alignment.alignment_ms,
            checkpointed_size=state.checkpointed_size,
            state_size=state.state_size,
            processed_data=alignment.processed_data,
            persisted_data=alignment.persisted_data,
            unaligned=int(alignment.unaligned),
            buffered_data=alignment.buffered_data,
        )
        try:
            self._responder.acknowledge(barrier.checkpoint_id, self._uid, self._index, state, metrics)
        except Exception as error:  # unreported, it would leave the checkpoint waiting until it expires
            self._decline(barrier.checkpoint_id, self._failure(error), CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)

    def _location(self, barrier: CheckpointBarrier) -> SnapshotLocation:
        location, copies = snapshot_location(barrier.location), self._chain.copies
        if copies is None or location.inline_only or barrier.savepoint:
            return location
        return copies.writing(location, barrier.checkpoint_id)

    def _decline(self, checkpoint_id: int, error: PystateError, reason: CheckpointFailureReason) -> None:
        self._responder.decline(checkpoint_id, self._uid, self._index, error, reason)

    def _failure(self, error: BaseException, kind: type[PystateError] = PystateError) -> PystateError:
        if isinstance(error, PystateError):
            error.where = self._where if error.where is None else f"{self._where}, {error.where}"
            return error
        return kind(f"The snapshot could not be taken: {error_sentence(error)}", where=self._where)
