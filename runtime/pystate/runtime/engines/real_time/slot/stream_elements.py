"""What comes on a channel, in its order."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.barrier import CheckpointBarrier


@dataclass(frozen=True)
class Buffer:
    """Encoded elements.

    Attributes:
        data: Their bytes, which nobody here looks into.
        records: How many there are.
    """

    data: bytes
    records: int


@dataclass(frozen=True)
class Watermark:
    """Says that no element of an earlier time is to come on its channel.

    Attributes:
        timestamp: Event time, ms since 1970.
    """

    timestamp: int


@dataclass(frozen=True)
class WatermarkStatus:
    """Says whether the channel's watermarks count.

    Attributes:
        idle: Nobody needs to wait for this channel.
    """

    idle: bool


@dataclass(frozen=True)
class CancelCheckpointMarker:
    """Comes instead of a checkpoint's barrier: whoever sends it has given that checkpoint up."""

    checkpoint_id: int


@dataclass(frozen=True)
class EndOfPartition:
    """Nothing more comes on this channel."""


InFlightElement = Buffer | Watermark | WatermarkStatus
"""What a barrier may overtake."""

StreamElement = InFlightElement | CheckpointBarrier | CancelCheckpointMarker | EndOfPartition


def size_of(element: StreamElement) -> int:
    """Return an element's bytes of data."""
    return len(element.data) if isinstance(element, Buffer) else 0
