"""The frames sent between slots: batches of records, watermarks, barriers, and the end of the data.

    slot -> relay -> Spark's shuffle -> relay -> slot

A relay reads only the first part of a frame, the place that it is for. The second part holds the channel and a sequence
number, so that lost, repeated and reordered frames are detected.
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
    """The content of a frame."""

    BATCH = 1  # records of an input; their rows are INSERTs
    WATERMARKS = 2  # the sender's event time
    BARRIER = 3
    CANCEL = 4  # a checkpoint was cancelled
    END_OF_DATA = 5  # no records follow, but barriers may
    CHANGES = 6  # records of an input, with the column of their kinds; what doesn't know them refuses the frame


@dataclass(frozen=True)
class Frame:
    """A frame as a subtask receives it.

    Attributes:
        kind: The kind of content.
        input_index: For a batch: the index of the task's input.
        channel: The number of the channel, see `TaskChannels.upstream`.
        sequence: The number of earlier frames in the channel.
        rows: For a batch: the number of rows.
        data: The content.
        packed: The whole frame as bytes, for `unpack_frame`.
    """

    kind: FrameKind
    input_index: int
    channel: int
    sequence: int
    rows: int
    data: memoryview
    packed: bytes

    def message(self) -> Any:
        """Return the message of a frame without records."""
        return msgpack.unpackb(self.data, raw=False)


def pack_frame(
    place: Place, kind: FrameKind, channel: int, sequence: int, data: Any, *, index: int = 0, rows: int = 0
) -> bytes:
    """Return a frame for a place.

    Args:
        place: The place of the receiving subtask.
        kind: The kind of content.
        channel: The number of the channel.
        sequence: The number of earlier frames in the channel.
        data: A bytes-like object.
        index: For a batch: the input index.
        rows: For a batch: the number of rows.
    """
    return b"".join((_PLACE.pack(*place), _HEADER.pack(kind, index, channel, sequence, rows), data))


def local_frame(kind: FrameKind, channel: int, sequence: int, data: Any, *, index: int = 0, rows: int = 0) -> Frame:
    """Return a frame for a subtask of the same slot, as it would unpack it; the arguments are those of `pack_frame`."""
    packed = b"".join((_HEADER.pack(kind, index, channel, sequence, rows), data))
    return Frame(kind, index, channel, sequence, rows, memoryview(packed)[_HEADER.size :], packed)


def place_of(frame: bytes) -> Place:
    """Return the place that a frame is for.

    Raises:
        ControlError: The bytes are no frame.
    """
    if len(frame) < PLACE_SIZE + _HEADER.size:
        message = f"A frame of {len(frame)} bytes is none."
        raise ControlError(message)
    level, partition = _PLACE.unpack_from(frame)
    return level, partition


def unpack_frame(data: bytes) -> Frame:
    """Return the received frame, without its place.

    Raises:
        ControlError: The bytes are no frame.
    """
    try:
        kind, index, channel, sequence, rows = _HEADER.unpack_from(data)
        return Frame(FrameKind(kind), index, channel, sequence, rows, memoryview(data)[_HEADER.size :], data)
    except (struct.error, ValueError) as error:
        message = f"What came to the slot is no frame: {error}."
        raise ControlError(message) from error


def remainder_of(frame: Frame, rest: pa.RecordBatch) -> Frame:
    """Return a frame of records without the records that have been processed.

    Args:
        frame: A frame of kind `BATCH` or `CHANGES`.
        rest: The remaining records.
    """
    header = _HEADER.pack(frame.kind, frame.input_index, frame.channel, frame.sequence, rest.num_rows)
    return unpack_frame(header + rest.serialize())


def pack_message(message: Any) -> bytes:
    """Return the content of a frame without records."""
    packed: bytes = msgpack.packb(message, use_bin_type=True)
    return packed
