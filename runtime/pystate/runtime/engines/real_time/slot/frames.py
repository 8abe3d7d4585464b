"""The frames that go from slot to slot: batches of records, watermarks, barriers, and the end of the data.

    slot -> relay -> Spark's shuffle -> relay -> slot

A relay sees the first part of a frame, the place that it is for, and nothing else. The second part says which channel it
came through and where it stands in it, so that a frame that is lost, repeated or overtaken on the way is found.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgpack
import pyarrow as pa

from pystate.common.errors import ControlError
from pystate.runtime.plan.channels import Place

_PLACE = struct.Struct(">HI")
_HEADER = struct.Struct(">BBIQI")

PLACE_SIZE = _PLACE.size


class FrameKind(IntEnum):
    """What a frame carries."""

    BATCH = 1  # records of an input
    WATERMARKS = 2  # how far the sender's event time is
    BARRIER = 3
    CANCEL = 4  # a checkpoint was given up
    END_OF_DATA = 5  # no record follows; barriers still do


@dataclass(frozen=True)
class Frame:
    """One frame, as it comes to a subtask.

    Attributes:
        kind: What it carries.
        input_index: Of a batch: which input of the task.
        channel: The number of the channel, see `TaskChannels.upstream`.
        sequence: How many came through the channel before it.
        rows: Of a batch.
        data: The rest.
        packed: All of it as bytes, for `unpack_frame`.
    """

    kind: FrameKind
    input_index: int
    channel: int
    sequence: int
    rows: int
    data: memoryview
    packed: bytes

    def message(self) -> Any:
        """Return what a frame without records says."""
        return msgpack.unpackb(self.data, raw=False)


def pack_frame(
    place: Place, kind: FrameKind, channel: int, sequence: int, data: Any, *, index: int = 0, rows: int = 0
) -> bytes:
    """Return a frame for a place.

    Args:
        place: Whose subtask it is for.
        kind: What it carries.
        channel: Through which it goes.
        sequence: How many went before it.
        data: Bytes of any kind.
        index: Of a batch: which input.
        rows: Of a batch.
    """
    return b"".join((_PLACE.pack(*place), _HEADER.pack(kind, index, channel, sequence, rows), data))


def place_of(frame: bytes) -> Place:
    """Return the place that a frame is for.

    Raises:
        ControlError: It is none.
    """
    if len(frame) < PLACE_SIZE + _HEADER.size:
        message = f"A frame of {len(frame)} bytes is none."
        raise ControlError(message)
    level, partition = _PLACE.unpack_from(frame)
    return level, partition


def unpack_frame(data: bytes) -> Frame:
    """Return the frame that came, without its place.

    Raises:
        ControlError: It is none.
    """
    try:
        kind, index, channel, sequence, rows = _HEADER.unpack_from(data)
        return Frame(FrameKind(kind), index, channel, sequence, rows, memoryview(data)[_HEADER.size :], data)
    except (struct.error, ValueError) as error:
        message = f"What came to the slot is no frame: {error}."
        raise ControlError(message) from error


def remainder_of(frame: Frame, rest: pa.RecordBatch) -> Frame:
    """Return a frame of records without those that have been processed.

    Args:
        frame: Of kind `BATCH`.
        rest: What is left of its records.
    """
    header = _HEADER.pack(frame.kind, frame.input_index, frame.channel, frame.sequence, rest.num_rows)
    return unpack_frame(header + rest.serialize())


def pack_message(message: Any) -> bytes:
    """Return what a frame without records carries."""
    packed: bytes = msgpack.packb(message, use_bin_type=True)
    return packed
