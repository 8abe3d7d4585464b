"""A queue on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystate.common.errors import SnapshotError
from pystate.runtime.engines.real_time.slot.input.spill_file import SpilledDataError, SpillFile
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer


def test_buffers_come_back_in_their_order_and_the_file_has_no_name(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    for round in range(2):
        buffers = [Buffer(bytes([round, number]) * number, number) for number in range(5)]
        for buffer in buffers:
            spill.append(buffer)
        assert list(spill) == buffers
        assert [spill.popleft() for _ in buffers] == buffers
        assert (spill.size, list(spill), list(tmp_path.iterdir())) == (0, [], [])


def test_bytes_that_changed_on_disk_are_found(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    spill.append(Buffer(b"sound", 1))
    assert spill._file is not None
    os.pwrite(spill._file.fileno(), b"S", 16)
    with pytest.raises(SpilledDataError, match="damaged at byte 0"):
        spill.popleft()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="nowhere"):
        SpillFile(str(tmp_path / "nowhere")).append(Buffer(b"x", 1))
