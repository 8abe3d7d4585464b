"""The elements of a channel."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.checkpoint.barrier import CheckpointBarrier


@dataclass(frozen=True)
class Buffer:
    """Encoded elements.

    Attributes:
        data: Their bytes, which are opaque here.
        records: The number of elements.
    """

    data: bytes
    records: int


@dataclass(frozen=True)
class Watermark:
    """Promises that no element with an earlier time follows on its channel.

    Attributes:
        timestamp: Event time, ms since 1970.
    """

    timestamp: int


@dataclass(frozen=True)
class WatermarkStatus:
    """Marks a channel as idle or active.

    Attributes:
        idle: Whether watermarks need not wait for this channel.
    """

    idle: bool


@dataclass(frozen=True)
class CancelCheckpointMarker:
    """Replaces a checkpoint's barrier: the sender has cancelled that checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True)
class EndOfPartition:
    """Marks the end of the channel."""


InFlightElement = Buffer | Watermark | WatermarkStatus
"""The elements that a barrier may overtake."""

StreamElement = InFlightElement | CheckpointBarrier | CancelCheckpointMarker | EndOfPartition


def size_of(element: StreamElement) -> int:
    """Return the size of an element's data in bytes."""
    return len(element.data) if isinstance(element, Buffer) else 0
