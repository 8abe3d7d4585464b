"""What a subtask does with barriers: the part that depends on the guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input_events import InputCheckpoint, InputEvent
from pystate.runtime.engines.real_time.slot.stream_elements import CancelCheckpointMarker, StreamElement

Emit = Callable[[InputEvent], None]
Clock = Callable[[], int]
"""Milliseconds since 1970."""


class CheckpointBarrierHandler(Protocol):
    """Told of barriers and of what ends a wait for them."""

    @property
    def deadline(self) -> int | None:
        """When barriers begin to overtake data, ms since 1970; None for not by themselves."""

    def added(self, channel: int, element: StreamElement) -> bool:
        """Take note of what has come, before it is queued; return whether it is done with."""

    def barrier_reached(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Take a barrier: all in front of it on its channel has been processed."""

    def cancelled(self, marker: CancelCheckpointMarker) -> None:
        """Take note that a checkpoint has been given up."""

    def ended(self, channel: int) -> None:
        """Take note that nothing more comes on a channel, all of which has been processed."""

    def processed(self, size: int) -> None:
        """Take note of bytes that are handed out."""

    def timed_out(self) -> None:
        """The deadline is there."""

    def close(self) -> None:
        """Let go of what is held."""


@dataclass
class Alignment:
    """The barriers of one checkpoint, as far as they have come.

    Attributes:
        barrier: The first of them.
        since: When it came, ms since 1970.
        arrived: The channels that have nothing more in front of their barrier, or at all.
        processed: Bytes handed out meanwhile.
        buffered: Bytes held back meanwhile, by the time when they are released.
    """

    barrier: CheckpointBarrier
    since: int
    arrived: set[int] = field(default_factory=set)
    processed: int = 0
    buffered: int = 0

    @property
    def checkpoint_id(self) -> int:
        """Whose barriers."""
        return self.barrier.checkpoint_id

    def measured(self, now: int) -> InputCheckpoint:
        """Return the figures of an alignment that ends now."""
        return InputCheckpoint(
            self.checkpoint_id,
            start_delay_ms=max(0, self.since - self.barrier.trigger_timestamp),
            alignment_ms=max(0, now - self.since),
            processed_data=self.processed,
            buffered_data=self.buffered,
        )
