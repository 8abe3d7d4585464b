"""The handling of barriers in a subtask: the part that depends on the guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.input_events import InputCheckpoint, InputEvent
from pystate.runtime.engines.real_time.slot.input.stream_elements import CancelCheckpointMarker, StreamElement

Emit = Callable[[InputEvent], None]
Clock = Callable[[], int]
"""Returns milliseconds since 1970."""


class CheckpointBarrierHandler(Protocol):
    """Handles barriers and the events that end a wait for them."""

    @property
    def deadline(self) -> int | None:
        """When barriers begin to overtake data, ms since 1970; None if they don't by themselves."""

    def added(self, channel: int, element: StreamElement) -> bool:
        """Handle an element before it is queued; return whether nothing remains to be done with it."""

    def barrier_reached(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Handle a barrier: everything before it on its channel has been processed."""

    def cancelled(self, marker: CancelCheckpointMarker) -> None:
        """Handle the cancellation of a checkpoint."""

    def aborted(self, checkpoint_id: int) -> None:
        """Handle the end of a checkpoint that the coordinator has given up; its barriers may have been sent or not."""

    def ended(self, channel: int) -> None:
        """Handle the end of a channel, all of which has been processed."""

    def processed(self, size: int) -> None:
        """Add to the number of bytes processed."""

    def timed_out(self) -> None:
        """Handle the expiry of the deadline."""

    def close(self) -> None:
        """Release all resources."""


@dataclass
class Alignment:
    """The barriers of one checkpoint that have arrived.

    Attributes:
        barrier: The first of them.
        since: When it arrived, ms since 1970.
        arrived: The channels whose barrier was reached, or that have ended.
        processed: Bytes processed during the alignment.
        buffered: Bytes held back during the alignment, counted when they are released.
    """

    barrier: CheckpointBarrier
    since: int
    arrived: set[int] = field(default_factory=set)
    processed: int = 0
    buffered: int = 0

    @property
    def checkpoint_id(self) -> int:
        """The ID of the checkpoint."""
        return self.barrier.checkpoint_id

    def measured(self, now: int) -> InputCheckpoint:
        """Return the metrics of an alignment that ends now."""
        return InputCheckpoint(
            self.checkpoint_id,
            start_delay_ms=max(0, self.since - self.barrier.trigger_timestamp),
            alignment_ms=max(0, now - self.since),
            processed_data=self.processed,
            buffered_data=self.buffered,
        )
