"""Second copies of state files: when they are read, when the storage is, and when they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.storage.local_copies import LocalCopies, local_copies_folder, remove_local_copies
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

DATA = b"state" * 1000


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(str(tmp_path / "local"))


@pytest.fixture
def location(tmp_path: Path) -> SnapshotLocation:
    (tmp_path / "remote").mkdir()
    return SnapshotLocation(str(tmp_path / "remote"))


def write(copies: LocalCopies, location: SnapshotLocation, checkpoint: int = 1, data: bytes = DATA, threshold: int = 10):
    return copies.writing(location, checkpoint).write_state("keyed", lambda sink: sink.write(data), threshold)


def files(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path / "local")) for path in (tmp_path / "local").rglob("*") if path.is_file())


def test_a_copy_is_read_while_the_storage_is_out_of_reach(copies, location, tmp_path):
    handle = write(copies, location)
    assert files(tmp_path) == [f"chk-1/{handle.path}"]
    os.unlink(tmp_path / "remote" / handle.path)
    with copies.reading(location).open(handle) as file:
        assert file.read() == DATA
    copies.reading(location).download(handle, str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == DATA
    assert (copies.read, copies.missed) == (2, 0)


@pytest.mark.parametrize("damaged", [b"state" * 999 + b"stats", DATA[:-1], b"", None])
def test_a_copy_that_does_not_fit_is_passed_over(copies, location, tmp_path, damaged, capsys):
    handle = write(copies, location)
    copy = tmp_path / "local" / "chk-1" / handle.path
    if damaged is None:
        copy.unlink()
    else:
        copy.write_bytes(damaged)
    with copies.reading(location).open(handle) as file:
        assert file.read() == DATA
    copies.reading(location).download(handle, str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == DATA
    assert (copies.read, copies.missed) == (0, 2)
    assert ("passed over" in capsys.readouterr().err) == (damaged is not None)


def test_without_a_copy_damage_on_the_storage_is_found(copies, location, tmp_path):
    handle = location.write_state("keyed", lambda sink: sink.write(DATA), 10)
    (tmp_path / "remote" / handle.path).write_bytes(DATA[:-1])
    for reader in (location, copies.reading(location)):
        with pytest.raises(CorruptSnapshotError, match="length"):
            reader.download(handle, str(tmp_path / f"here-{id(reader)}"))


def test_small_state_needs_no_copy(copies, location, tmp_path):
    handle = write(copies, location, data=b"small")
    assert handle == ByteStreamStateHandle(b"small")
    assert files(tmp_path) == []
    copies.reading(location).download(handle, str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == b"small"


def test_a_copy_that_cannot_be_written_does_not_harm_the_checkpoint(location, tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    copies = LocalCopies(str(tmp_path / "file" / "local"))
    handle = write(copies, location)
    copies.link(1, str(tmp_path / "file"), FileStateHandle("file:/x/y", 1, 1))
    with copies.reading(location).open(handle) as file:
        assert file.read() == DATA
    assert "there is no local copy" in capsys.readouterr().err


def test_a_full_disk_ends_the_copy_only(copies, location, tmp_path, monkeypatch):
    opened = copies.open_copy

    class Full:
        def __init__(self, file):
            self.name, self.close = file.name, file.close

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies, "open_copy", lambda *arguments: Full(opened(*arguments)))
    handle = write(copies, location)
    assert files(tmp_path) == []
    with location.open(handle) as file:
        assert file.read() == DATA


def test_a_failed_write_leaves_no_copy(copies, location, tmp_path):
    def fail(sink):
        sink.write(DATA)
        message = "no"
        raise SnapshotError(message)

    with pytest.raises(SnapshotError):
        copies.writing(location, 1).write_state("keyed", fail, 10)
    assert files(tmp_path) == []


def test_copies_of_a_shared_file_are_links_both_ways(copies, location, tmp_path):
    (tmp_path / "000012.sst").write_bytes(DATA)
    handle = location.absolute(location.write_state("sst", lambda sink: sink.write(DATA), 0))
    copies.link(1, str(tmp_path / "000012.sst"), handle)
    os.unlink(tmp_path / "remote" / handle.path.rsplit("/", 1)[-1])
    copies.reading(location).download(handle, str(tmp_path / "here"))
    assert os.stat(tmp_path / "000012.sst").st_nlink == 3
    copies.checkpoint_ended(1, completed=False)
    assert (tmp_path / "here").read_bytes() == DATA


def test_copies_go_with_their_checkpoints(copies, location, tmp_path):
    for number in (1, 2, 3):
        write(copies, location, number)
    copies.checkpoint_ended(2, completed=True)
    assert [name.split("/")[0] for name in files(tmp_path)] == ["chk-2", "chk-3"]
    copies.checkpoint_ended(3, completed=False)
    assert [name.split("/")[0] for name in files(tmp_path)] == ["chk-2"]
    write(copies, location, 4)
    copies.restored(2, "count")
    assert [name.split("/")[0] for name in files(tmp_path)] == ["chk-2"], "a new attempt drops what the last one left"


def test_a_jobs_copies_are_removed_and_no_other_jobs(tmp_path):
    job, other = "a" * 32, "b" * 32
    for one in (job, other):
        os.makedirs(os.path.join(local_copies_folder(str(tmp_path), one), "count-0", "chk-1"))
    remove_local_copies([str(tmp_path), str(tmp_path / "missing")], job)
    assert os.listdir(tmp_path) == [os.path.basename(local_copies_folder(None, other))]
