"""Frames: what relays read of them, and what subtasks do."""

import pytest

from pystate.common.errors import ControlError
from pystate.runtime.engines.real_time.slot.frames import (
    PLACE_SIZE,
    FrameKind,
    pack_frame,
    pack_message,
    place_of,
    unpack_frame,
)


def test_a_relay_reads_the_place_and_a_subtask_the_rest():
    data = pack_frame((3, 70_000), FrameKind.BATCH, 5, 1 << 40, b"rows", index=1, rows=9)
    assert place_of(data) == (3, 70_000)
    frame = unpack_frame(data[PLACE_SIZE:])
    assert (frame.kind, frame.input_index, frame.channel, frame.sequence, frame.rows) == (FrameKind.BATCH, 1, 5, 1 << 40, 9)
    assert bytes(frame.data) == b"rows"
    cancel = unpack_frame(pack_frame((0, 0), FrameKind.CANCEL, 0, 0, pack_message(7))[PLACE_SIZE:])
    assert cancel.message() == 7


@pytest.mark.parametrize("data", [b"", b"\0" * 10, b"\0" * 23])
def test_what_is_too_short_is_no_frame(data):
    with pytest.raises(ControlError, match="is none"):
        place_of(data)


@pytest.mark.parametrize("data", [b"", b"\x01" * 17, bytes([99]) + b"\0" * 17])
def test_what_has_another_header_is_no_frame(data):
    with pytest.raises(ControlError, match="is no frame"):
        unpack_frame(data)
