"""Snapshots of others with files that are larger than any can be: sparse ones cost them nothing."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.snapshot_location import MAX_METADATA_BYTES, SnapshotLocation
from tests.core.snapshot.snapshots import write_savepoint

TERABYTE = 1 << 40


class Counted(io.FileIO):
    """A file that knows how much was read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        Counted.read_bytes += len(data or b"")
        return data or b""


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotLocation:
    found = write_savepoint(tmp_path)
    monkeypatch.setattr(found._store, "open", lambda path: Counted(path))
    monkeypatch.setattr(Counted, "read_bytes", 0)
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: b"", "no metadata file"),
        (lambda whole: whole, "where its head says"),
        (lambda whole: whole[:12] + (TERABYTE).to_bytes(8, "big") + whole[20:], "larger than any"),
    ],
)
def test_a_terabyte_of_metadata_is_refused_by_its_head(location: SnapshotLocation, change: Any, message: str) -> None:
    path = Path(location.uri.removeprefix("file:")) / "_metadata"
    whole = path.read_bytes()
    path.write_bytes(change(whole))
    os.truncate(path, TERABYTE)

    with pytest.raises(CorruptSnapshotError, match=message):
        read_metadata(location.read_metadata(), location.uri)

    assert Counted.read_bytes <= 1 << 20


def test_what_is_never_large_is_refused_by_its_size(location: SnapshotLocation) -> None:
    folder = Path(location.uri.removeprefix("file:"))
    (folder / "logs").touch()
    os.truncate(folder / "logs", TERABYTE)
    with pytest.raises(CorruptSnapshotError, match="larger than any"):
        location.read_whole(FileStateHandle("logs", TERABYTE, 0))
    assert Counted.read_bytes == 0


def test_a_note_in_a_snapshot_is_read_up_to_the_bound(location: SnapshotLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pystate.core.snapshot.storage.snapshot_location.MAX_METADATA_BYTES", 1000)
    path = Path(location.uri.removeprefix("file:")) / "note"
    path.touch()
    os.truncate(path, TERABYTE)
    with pytest.raises(CorruptSnapshotError, match="larger than any"):
        location.read_file("note")
    assert Counted.read_bytes == 1001
    assert MAX_METADATA_BYTES > 1000
