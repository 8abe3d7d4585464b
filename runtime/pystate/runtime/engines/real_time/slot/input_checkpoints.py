"""A subtask's part in checkpoints whose barriers arrive through its input channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pystate.common.errors import CheckpointFailedError
from pystate.core.snapshot.handles.input_channel_state import channels_changed
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.ending_checkpoint import EndingCheckpoint
from pystate.runtime.engines.real_time.slot.frames import Frame
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelState, ChannelStateWriter
from pystate.runtime.engines.real_time.slot.input.input_events import (
    CheckpointAborted,
    InputCheckpoint,
    InputComplete,
    TakeCheckpoint,
)
from pystate.runtime.engines.real_time.slot.input.input_gate import CheckpointEvent, InputGate
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer
from pystate.runtime.engines.real_time.slot.output.subtask_output import SubtaskOutput
from pystate.runtime.slot.snapshots.in_flight_data import InFlightData
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask_checkpoints import Alignment, FrozenCheckpoint, SubtaskCheckpointCoordinator

IN_MEMORY_BYTES = 1 << 20
"""The memory bound for the rest of a batch; beyond it a file is used."""


class _Unaligned(NamedTuple):
    """An unaligned checkpoint whose data in flight isn't complete yet."""

    frozen: FrozenCheckpoint
    rest: ChannelState | None


class InputCheckpoints:
    """Executes the checkpoint events of a subtask's input, on the subtask's thread.

    Args:
        gate: The input.
        output: Forwards barriers.
        settle: Emits all results so far, and flushes all changes to the state.
        ending: Records the barrier after which nothing may be produced.
        directory: The directory for in-flight data; None for the system's temporary directory.
    """

    def __init__(
        self,
        gate: InputGate,
        output: SubtaskOutput,
        settle: Callable[[], None],
        ending: EndingCheckpoint,
        directory: str | None = None,
    ) -> None:
        self._gate = gate
        self._output = output
        self._settle = settle
        self._ending = ending
        self._directory = directory
        self._unaligned: _Unaligned | None = None

    def poll(self) -> CheckpointEvent | None:
        """Return the checkpoint event to execute before the next element; None for none."""
        return self._gate.poll_checkpoint()

    def handle(
        self, event: CheckpointEvent, checkpoints: SubtaskCheckpointCoordinator, unconsumed: Frame | None = None
    ) -> None:
        """Execute an event.

        Args:
            event: The event.
            checkpoints: The subtask's part of checkpoints.
            unconsumed: The rest of the frame that is being processed; None for none.
        """
        if isinstance(event, TakeCheckpoint):
            self._take(event, checkpoints, unconsumed)
        elif isinstance(event, InputComplete):
            self._complete(event.input, checkpoints)
        else:
            self._aborted(event, checkpoints)

    def close(self) -> None:
        """Close the input, and drop incomplete checkpoints."""
        self._drop_unaligned()
        self._gate.close()

    def _take(self, event: TakeCheckpoint, checkpoints: SubtaskCheckpointCoordinator, unconsumed: Frame | None) -> None:
        """Forward the barrier after all earlier output, and freeze the state."""
        barrier = event.barrier
        if barrier.checkpoint_id <= self._output.last_barrier:
            return
        self._settle()
        self._output.barrier(barrier)
        self._ending.taken(barrier)
        if event.input is not None:
            checkpoints.take(barrier, _alignment_of(event.input))
            return
        self._drop_unaligned()
        frozen = checkpoints.freeze(barrier)
        if frozen is not None:
            self._unaligned = _Unaligned(frozen, self._persist(barrier.checkpoint_id, unconsumed))

    def _complete(self, measured: InputCheckpoint, checkpoints: SubtaskCheckpointCoordinator) -> None:
        queued = measured.channel_state
        if self._unaligned is None or self._unaligned.frozen.checkpoint_id != measured.checkpoint_id:
            if queued is not None:
                queued.close()
            return
        (frozen, rest), self._unaligned = self._unaligned, None
        parts = tuple(part for part in (rest, queued) if part is not None)
        in_flight = InFlightData(self._gate.upstream, parts) if parts else None
        checkpoints.finish(frozen, _alignment_of(measured, 0 if rest is None else rest.size), in_flight)

    def _aborted(self, event: CheckpointAborted, checkpoints: SubtaskCheckpointCoordinator) -> None:
        """Decline a checkpoint, and cancel its barrier downstream."""
        if self._unaligned is not None and self._unaligned.frozen.checkpoint_id == event.checkpoint_id:
            self._drop_unaligned()
        if event.checkpoint_id > self._output.last_barrier:
            self._output.cancel(event.checkpoint_id)
        if event.reason is CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED:
            message = f"The barrier of a newer checkpoint came before all of checkpoint {event.checkpoint_id}."
        else:
            message = f"Checkpoint {event.checkpoint_id} was given up."
        checkpoints.give_up(event.checkpoint_id, CheckpointFailedError(message), event.reason)

    def _persist(self, checkpoint_id: int, unconsumed: Frame | None) -> ChannelState | None:
        if unconsumed is None:
            return None
        writer = ChannelStateWriter(checkpoint_id, len(self._gate.upstream), IN_MEMORY_BYTES, self._directory)
        writer.write(unconsumed.channel, Buffer(unconsumed.packed, unconsumed.rows))
        return writer.finish()

    def _drop_unaligned(self) -> None:
        if self._unaligned is not None:
            (frozen, rest), self._unaligned = self._unaligned, None
            frozen.release()
            if rest is not None:
                rest.close()


def _alignment_of(measured: InputCheckpoint, more: int = 0) -> Alignment:
    return Alignment(
        alignment_ms=measured.alignment_ms,
        processed_data=measured.processed_data,
        buffered_data=measured.buffered_data,
        persisted_data=measured.persisted_data + more,
        start_delay_ms=measured.start_delay_ms,
        unaligned=measured.unaligned,
    )


def restore_in_flight(gate: InputGate, restored: RestoredOperator, uid: str) -> None:
    """Have a gate replay the in-flight data of the checkpoint that the subtask is restored from.

    Args:
        gate: The input.
        restored: The state of the operator that heads the task.
        uid: The task's uid.

    Raises:
        ChannelStateRescaleError: The subtask's channels have changed.
        PystateError: See `SnapshotLocation.open`, `InputGate.restore`.
    """
    in_flight = restored.in_flight
    if in_flight is None:
        return
    refusal = channels_changed(uid, in_flight.upstream, gate.upstream)
    if refusal is not None:
        raise refusal
    for handle in in_flight.handles:
        with restored.open(handle) as file:
            gate.restore([file])
