"""Channel state as bytes: whole or refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.runtime.engines.real_time.slot.input.channel_state import MAGIC, ChannelStateReader, ChannelStateWriter
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, InFlightElement, Watermark, WatermarkStatus

ELEMENTS: list[tuple[int, InFlightElement]] = [
    (0, Buffer(b"first", 3)),
    (1, Watermark(-(2**63))),
    (1, WatermarkStatus(idle=True)),
    (1, WatermarkStatus(idle=False)),
    (0, Buffer(b"", 0)),
]


def encoded(memory_bytes: int = 1 << 20, directory: str | None = None) -> bytes:
    writer = ChannelStateWriter(9, 2, memory_bytes, directory)
    for channel, element in ELEMENTS:
        writer.write(channel, element)
    state = writer.finish()
    assert state is not None
    data = state.to_bytes()
    assert len(data) == state.size
    state.close()
    return data


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
def test_what_is_written_is_read(memory_bytes: int, tmp_path: Path) -> None:
    reader = ChannelStateReader(io.BytesIO(encoded(memory_bytes, str(tmp_path))))
    assert (reader.checkpoint_id, reader.channels, list(reader)) == (9, 2, ELEMENTS)
    assert list(tmp_path.iterdir()) == []


def test_the_bytes_stay_as_they_are() -> None:
    assert encoded().startswith(MAGIC + b"\0\1" + (9).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"\1")


def test_any_changed_or_missing_byte_is_found() -> None:
    data = encoded()
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        for bad in (changed, data[:place]):
            with pytest.raises((CorruptSnapshotError, RestoreError)):
                refuse(bad)
    with pytest.raises(CorruptSnapshotError):
        refuse(data + b"\0")


def refuse(data: bytes) -> None:
    """Read as a restore does: a head that says something else is another checkpoint's."""
    reader = ChannelStateReader(io.BytesIO(data))
    reader.check_channels(2)
    list(reader)


def test_a_newer_version_is_refused_by_name() -> None:
    data = encoded()
    with pytest.raises(RestoreError, match="version 2; this pystate reads 1"):
        refuse(MAGIC + b"\0\2" + data[len(MAGIC) + 2 :])
