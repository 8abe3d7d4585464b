from __future__ import annotations

import io
import os
import pickle
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

import fsspec
import pytest

from pystate.common.errors import CheckpointFailedError, CorruptSnapshotError, RestoreError, SnapshotError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location, resolve_snapshot

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.fixture(params=["local", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotLocation:
    uri = f"{tmp_path}/chk-7" if request.param == "local" else f"memory://{tmp_path.name}/chk-7"
    made = SnapshotLocation(uri)
    made.create()
    return made


# -- places


@pytest.mark.parametrize("text", ["/a/b", "file:/a/b", "file:///a/b", "FILE:/a/b/", "/a/./b/", "/a/c/../b"])
def test_all_ways_to_write_a_local_path_give_one_uri(text: str) -> None:
    _, path, uri = parse_location(text)
    assert (path, uri) == ("/a/b", "file:/a/b")


def test_relative_paths_and_the_home_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_location("sp/x")[1] == f"{tmp_path}/sp/x"
    assert parse_location("~/sp")[1] == "/home/me/sp"
    assert parse_location("a:b")[1] == f"{tmp_path}/a:b"


def test_a_path_keeps_blanks_and_percent_signs() -> None:
    assert parse_location("file:/a b/%20")[1] == "/a b/%20"


def test_other_filesystems_come_from_fsspec() -> None:
    fs, path, uri = parse_location("memory://x/y/")
    assert isinstance(fs, fsspec.get_filesystem_class("memory"))
    assert (path, uri) == ("/x/y", "memory://x/y")


@pytest.mark.parametrize("text", ["", " ", "a\0b", "file://host/x", "s3:/bucket/x", "nosuchthing://x/y"])
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(SnapshotError):
        parse_location(text)


# -- the job's directories


def test_a_jobs_directories_are_flinks(tmp_path: Path) -> None:
    storage = CheckpointStorageAccess(str(tmp_path), f"file:{tmp_path}/sp", JOB_ID)
    storage.initialize()
    storage.initialize()
    assert names(tmp_path) == [JOB_ID, f"{JOB_ID}/shared", f"{JOB_ID}/taskowned"]
    assert storage.checkpoint_location(12).uri == f"file:{tmp_path}/{JOB_ID}/chk-12"
    uri = storage.savepoint_location(None).uri
    assert re.fullmatch(re.escape(f"file:{tmp_path}/sp/savepoint-83f146-") + "[0-9a-f]{12}", uri)
    assert storage.savepoint_location(None).uri != uri
    assert storage.savepoint_location("memory://sp").uri.startswith("memory://sp/savepoint-83f146-")


def test_the_jobs_own_directory_can_be_left_out(tmp_path: Path) -> None:
    storage = CheckpointStorageAccess(str(tmp_path), None, JOB_ID, create_subdir=False)
    storage.initialize()
    assert names(tmp_path) == ["shared", "taskowned"]
    assert storage.checkpoint_location(1).uri == f"file:{tmp_path}/chk-1"


def test_a_savepoint_without_a_directory_gets_flinks_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointFailedError) as raised:
        CheckpointStorageAccess(str(tmp_path), None, JOB_ID).savepoint_location(None)
    assert raised.value.message == (
        "Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."
    )
    assert raised.value.hint


def test_a_checkpoint_without_a_directory_names_the_key() -> None:
    storage = CheckpointStorageAccess(None, None, JOB_ID)
    for call in (storage.initialize, lambda: storage.checkpoint_location(1)):
        with pytest.raises(CheckpointFailedError, match="execution.checkpointing.dir"):
            call()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointFailedError, match=f"file:{tmp_path}/file/{JOB_ID}/shared"):
        CheckpointStorageAccess(f"{tmp_path}/file", None, JOB_ID).initialize()


# -- state


def test_a_location_goes_to_other_processes_by_its_uri(location: SnapshotLocation) -> None:
    location.write_metadata(b"m")
    copy = pickle.loads(pickle.dumps(location))
    assert copy == location == SnapshotLocation(location.uri)
    assert len({copy, location}) == 1
    assert copy.read_metadata() == b"m"


@pytest.mark.parametrize(("size", "inline"), [(0, True), (1, True), (10, True), (11, False), (5000, False)])
def test_state_up_to_the_threshold_is_inline(location: SnapshotLocation, size: int, inline: bool) -> None:
    data = os.urandom(size)
    handle = location.write_state("count-0", lambda file: file.write(data), 10)
    assert isinstance(handle, ByteStreamStateHandle if inline else FileStateHandle)
    assert (handle.size, handle.crc32) == (size, zlib.crc32(data))
    with location.open(handle) as file:
        assert file.read() == data
        file.seek(size // 2)
        assert file.read() == data[size // 2 :]


def test_a_threshold_of_zero_still_takes_nothing_inline(location: SnapshotLocation) -> None:
    handle = location.write_state("a", lambda file: None, 0)
    assert handle == ByteStreamStateHandle(b"")
    assert isinstance(location.write_state("a", lambda file: file.write(b"x"), 0), FileStateHandle)


def test_state_written_in_pieces_is_whole(location: SnapshotLocation) -> None:
    pieces = [os.urandom(size) for size in (3, 7, 0, 100, 1, 4096)]

    def write(file: BinaryIO) -> None:
        for piece in pieces:
            assert file.write(piece) == len(piece)
        file.write(memoryview(b"end"))

    handle = location.write_state("a", write, 10)
    assert location.open(handle).read() == b"".join(pieces) + b"end"


def test_a_buffered_writer_may_wrap_it(location: SnapshotLocation) -> None:
    def write(file: BinaryIO) -> None:
        with io.BufferedWriter(file, 16) as buffered:
            buffered.write(b"x" * 100)

    assert location.open(location.write_state("a", write, 10)).read() == b"x" * 100


def test_only_the_finished_file_stays(tmp_path: Path) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    location.create()

    def write(file: BinaryIO) -> None:
        file.write(b"x" * 100)
        (during,) = names(tmp_path / "chk-1")
        assert during.endswith(".inprogress")

    handle = location.write_state("count-0-keyed", write, 10)
    assert isinstance(handle, FileStateHandle)
    assert re.fullmatch("count-0-keyed-[0-9a-f]{8}", handle.path)
    assert names(tmp_path / "chk-1") == [handle.path]


def test_two_writers_of_one_name_do_not_meet(location: SnapshotLocation) -> None:
    one = location.write_state("a", lambda file: file.write(b"1" * 100), 0)
    two = location.write_state("a", lambda file: file.write(b"2" * 100), 0)
    assert (location.open(one).read(), location.open(two).read()) == (b"1" * 100, b"2" * 100)


def test_a_writer_that_raises_leaves_no_file(tmp_path: Path) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    location.create()

    def write(file: BinaryIO) -> None:
        file.write(b"x" * 100)
        raise KeyError("the backend's own trouble")

    with pytest.raises(KeyError):
        location.write_state("a", write, 10)
    assert names(tmp_path / "chk-1") == []


_LARGE_STATE = """
import sys, tracemalloc
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

location = SnapshotLocation(sys.argv[1])
location.create()
piece = bytes(1 << 20)
tracemalloc.start()
handle = location.write_state("a", lambda file: [file.write(piece) for _ in range(64)], 20_000)
location.open(handle).close()
print(handle.size, tracemalloc.get_traced_memory()[1])
"""


def test_large_state_is_not_held_in_memory(tmp_path: Path) -> None:
    # a process of its own, since threads that other tests have left behind take memory too
    done = subprocess.run(
        [sys.executable, "-c", _LARGE_STATE, f"{tmp_path}/chk-1"], check=True, capture_output=True, text=True
    )
    size, peak = map(int, done.stdout.split())
    assert size == 64 << 20
    assert peak < 4 << 20


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "empty"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    location.create()
    handle = location.write_state("a", lambda file: file.write(b"x" * 3_000_000), 0)
    assert isinstance(handle, FileStateHandle)
    path = tmp_path / "chk-1" / handle.path
    data = path.read_bytes()
    path.write_bytes(
        {"flip": data[:-1] + b"y", "cut": data[:-1], "grow": data + b"x", "empty": b""}[damage],
    )
    with pytest.raises(CorruptSnapshotError, match=re.escape(handle.path)):
        location.open(handle)


def test_a_missing_file_is_refused_by_name(location: SnapshotLocation) -> None:
    with pytest.raises(CorruptSnapshotError, match="chk-7/gone"):
        location.open(FileStateHandle("gone", 1, 1))


def test_a_handle_cannot_lead_out_of_the_snapshot(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    for path in ("../secret", f"{tmp_path}/secret"):
        with pytest.raises(CorruptSnapshotError):
            location.open(FileStateHandle(path, 1, zlib.crc32(b"s")))


def test_a_shared_file_is_found_by_its_uri(location: SnapshotLocation, tmp_path: Path) -> None:
    (tmp_path / "shared.sst").write_bytes(b"sst")
    handle = FileStateHandle(f"file:{tmp_path}/shared.sst", 3, zlib.crc32(b"sst"))
    assert location.open(handle).read() == b"sst"


# -- metadata


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to tell which file a descriptor is")
def test_local_files_and_their_names_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(re.sub(r"-[0-9a-f]{8}", "", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))

    location = SnapshotLocation(f"{tmp_path}/job/chk-1")
    location.create()
    monkeypatch.setattr(os, "fsync", fsync)
    location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    location.write_metadata(b"m")
    assert synced == [".a.inprogress", "._metadata.inprogress", "chk-1", "job"]


def test_metadata_makes_the_snapshot_exist(location: SnapshotLocation) -> None:
    assert not location.exists
    with pytest.raises(RestoreError, match="_metadata"):
        location.read_metadata()
    location.write_metadata(b"all of it")
    assert location.exists
    assert location.read_metadata() == b"all of it"


def test_metadata_is_never_overwritten(location: SnapshotLocation) -> None:
    location.write_metadata(b"first")
    with pytest.raises(SnapshotError, match="not overwritten"):
        location.write_metadata(b"second")
    assert location.read_metadata() == b"first"
    with pytest.raises(SnapshotError, match="not overwritten"):
        location.create()


def test_metadata_leaves_no_other_file(tmp_path: Path) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    location.create()
    location.write_metadata(b"first")
    with pytest.raises(SnapshotError):
        location.write_metadata(b"second")
    assert names(tmp_path) == ["chk-1", "chk-1/_metadata"]


def test_a_directory_left_by_a_dead_attempt_can_be_used(location: SnapshotLocation) -> None:
    location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    location.create()
    location.write_metadata(b"m")
    assert location.exists


# -- finding


def test_a_snapshot_is_found_by_its_directory_and_by_its_metadata(location: SnapshotLocation) -> None:
    location.write_metadata(b"m")
    for text in (location.uri, f"{location.uri}/", f"{location.uri}/_metadata"):
        assert resolve_snapshot(text).uri == location.uri


def test_a_relative_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-7")
    location.create()
    location.write_metadata(b"m")
    monkeypatch.chdir(tmp_path)
    assert resolve_snapshot("chk-7") == resolve_snapshot("chk-7/_metadata") == location
    monkeypatch.chdir(tmp_path / "chk-7")
    assert resolve_snapshot("_metadata") == resolve_snapshot(".") == location


@pytest.mark.parametrize(
    ("text", "scheme"), [("/no/such", "file"), ("file:///no/such", "file"), ("memory://no/such", "memory")]
)
def test_a_missing_snapshot_gets_flinks_sentence(text: str, scheme: str) -> None:
    with pytest.raises(RestoreError) as raised:
        resolve_snapshot(text)
    assert raised.value.message == (
        f"Cannot find checkpoint or savepoint file/directory '{text}' on file system '{scheme}'."
    )
    assert raised.value.hint


def test_a_directory_without_metadata_is_no_snapshot(location: SnapshotLocation) -> None:
    location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    with pytest.raises(RestoreError, match="Cannot find meta data file '_metadata'"):
        resolve_snapshot(location.uri)


def test_another_file_is_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_bytes(b"")
    with pytest.raises(RestoreError, match="is a file"):
        resolve_snapshot(f"{tmp_path}/job.py")


# -- deleting


def test_a_discarded_snapshot_leaves_nothing(location: SnapshotLocation) -> None:
    location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    location.write_metadata(b"m")
    location.discard()
    fs, path, _ = parse_location(location.uri)
    assert not fs.exists(path)
    location.discard()


def test_only_the_snapshots_own_directory_is_deleted(tmp_path: Path) -> None:
    storage = CheckpointStorageAccess(str(tmp_path), str(tmp_path), JOB_ID)
    storage.initialize()
    for location in (storage.checkpoint_location(1), storage.checkpoint_location(2), storage.savepoint_location(None)):
        location.create()
        location.write_metadata(b"m")
    storage.checkpoint_location(1).discard()
    location.discard()
    assert names(tmp_path / JOB_ID) == ["chk-2", "chk-2/_metadata", "shared", "taskowned"]
    assert names(tmp_path)[0] == JOB_ID


@pytest.mark.parametrize("name", [".", "chk-", "chk-x", "chk-1/sub", "my-savepoint", "savepoint-83f146-short", JOB_ID])
def test_what_does_not_look_like_a_snapshot_is_not_deleted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / name / "_metadata").write_bytes(b"m")
    with pytest.raises(SnapshotError, match="not deleted"):
        SnapshotLocation(f"{tmp_path}/{name}").discard()
    assert (tmp_path / name / "_metadata").exists()


def test_a_writer_that_comes_after_the_deletion_makes_no_new_directory(tmp_path: Path) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    location.create()
    location.discard()
    with pytest.raises(SnapshotError, match="chk-1"):
        location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    with pytest.raises(SnapshotError, match="chk-1"):
        location.write_metadata(b"m")
    assert names(tmp_path) == []
