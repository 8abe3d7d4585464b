"""What every checkpoint storage must do, on each kind of filesystem."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotExistsError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location, resolve_snapshot
from pystate.ops.catalog.garbage import GarbageCollection, OrphanKind
from pystate.ops.catalog.listing import find_snapshots
from pystate.ops.catalog.snapshot_summary import read_snapshot
from pystate.ops.catalog.verification import Verification
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch, RunningEpochStore
from tests.core.file_systems.conftest import Place
from tests.core.snapshot.snapshots import write_savepoint
from tests.waiting import LONGEST_S

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"
SNAPSHOTS = Path(__file__).parents[3] / "fixtures" / "snapshots"
REPOSITORY = Path(__file__).parents[4]


def storage_at(place: Place) -> CheckpointStorageAccess:
    storage = CheckpointStorageAccess(place.uri, f"{place.uri}/savepoints", JOB_ID)
    storage.initialize()
    return storage


def new_location(place: Place, checkpoint_id: int = 7) -> SnapshotLocation:
    location = storage_at(place).checkpoint_location(checkpoint_id)
    location.create()
    return location


def put(location: SnapshotLocation, name: str, data: bytes) -> FileStateHandle:
    handle = location.write_state(name, lambda file: file.write(data), 0)
    assert isinstance(handle, FileStateHandle)
    return handle


def test_state_is_read_as_it_was_written(place: Place, tmp_path: Path) -> None:
    location = new_location(place)
    data = os.urandom(300_000)
    handle = location.write_state("count-0", lambda file: [file.write(data[:7]), file.write(data[7:])], 100)
    assert isinstance(handle, FileStateHandle)
    assert (handle.size, handle.crc32) == (len(data), zlib.crc32(data))
    with location.open(handle) as file:
        assert file.read(10) == data[:10]
        file.seek(200_000)
        assert file.read() == data[200_000:]
        file.seek(5)
        assert file.read(5) == data[5:10]
    location.download(handle, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == data
    assert location.write_state("count-1", lambda file: file.write(b"x"), 100) == ByteStreamStateHandle(b"x")


def test_a_file_of_several_parts_is_whole(place: Place) -> None:
    location = new_location(place)
    pieces = [os.urandom(1 << 20) for _ in range(18)]
    handle = location.write_state("large", lambda file: [file.write(piece) for piece in pieces], 0)
    with location.open(handle) as file:
        assert file.read() == b"".join(pieces)


def test_nothing_stands_under_its_name_before_it_is_whole(place: Place) -> None:
    location = new_location(place)
    during: list[list[str]] = []

    def write(file: object) -> None:
        for _ in range(12):
            file.write(os.urandom(1 << 20))  # type: ignore[attr-defined]
        during.append([name for name in location.file_names() if not name.endswith(".inprogress")])

    handle = location.write_state("large", write, 0)
    assert isinstance(handle, FileStateHandle)
    assert during == [[]]
    assert location.file_names() == [handle.path]


@pytest.mark.parametrize("size", [1, 12 << 20])
def test_a_writer_that_raises_leaves_nothing(place: Place, size: int) -> None:
    location = new_location(place)

    def write(file: object) -> None:
        for start in range(0, size, 1 << 20):
            file.write(b"x" * min(1 << 20, size - start))  # type: ignore[attr-defined]
        raise KeyError("the backend's own trouble")

    with pytest.raises(KeyError):
        location.write_state("a", write, 0)
    assert location.file_names() == []
    fs, _, _ = parse_location(location.uri)
    if place.kind == "s3":
        assert fs.list_multipart_uploads(place.bucket) == []


def test_metadata_makes_the_snapshot_exist(place: Place) -> None:
    location = new_location(place)
    assert not location.exists
    with pytest.raises(RestoreError, match="_metadata"):
        location.read_metadata()
    location.write_metadata(b"all of it")
    assert SnapshotLocation(location.uri).exists
    assert SnapshotLocation(location.uri).read_metadata() == b"all of it"
    assert location.file_names() == ["_metadata"]


def test_metadata_is_never_overwritten(place: Place) -> None:
    location = new_location(place)
    location.write_metadata(b"first")
    with pytest.raises(SnapshotExistsError, match="not overwritten"):
        location.write_metadata(b"second")
    with pytest.raises(SnapshotExistsError):
        location.create()
    assert location.read_metadata() == b"first"
    assert location.file_names() == ["_metadata"]


def test_of_several_drivers_that_complete_a_checkpoint_at_once_one_does(shared_place: Place) -> None:
    location = new_location(shared_place)
    start, won, lost = threading.Barrier(6), [], []

    def complete(number: int) -> None:
        own = SnapshotLocation(location.uri)
        start.wait(LONGEST_S)
        try:
            own.write_metadata(b"driver %d" % number)
            won.append(number)
        except SnapshotExistsError:
            lost.append(number)

    threads = [threading.Thread(target=complete, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert (len(won), len(lost)) == (1, 5)
    assert location.read_metadata() == b"driver %d" % won[0]
    assert location.file_names() == ["_metadata"]


def test_a_list_is_what_is_there_at_this_moment(place: Place) -> None:
    location = new_location(place)
    other = SnapshotLocation(location.uri)
    for number in range(5):
        handle = put(location, f"a{number}", b"x")
        assert other.file_names() == [handle.path]
        other.remove(handle.path)
        assert location.file_names() == []
    other.remove("gone")


def test_the_checkpoints_of_a_job_are_listed(place: Place) -> None:
    storage = storage_at(place)
    for checkpoint_id in (1, 2, 12):
        location = storage.checkpoint_location(checkpoint_id)
        location.create()
        put(location, "a", b"x")
    assert {number for number, _ in storage.checkpoint_directories()} == {1, 2, 12}


def test_a_discarded_snapshot_leaves_nothing_and_takes_nothing_else_along(place: Place) -> None:
    storage = storage_at(place)
    for checkpoint_id in (1, 10, 11):
        location = storage.checkpoint_location(checkpoint_id)
        location.create()
        put(location, "a", b"x" * 100)
        location.write_metadata(b"m")
    shared = put(storage.shared_location, "s", b"shared")
    storage.checkpoint_location(1).discard()
    storage.checkpoint_location(1).discard()
    assert {number for number, _ in storage.checkpoint_directories()} == {10, 11}
    assert len(storage.checkpoint_location(10).file_names()) == 2
    assert storage.shared_location.file_names() == [shared.path]
    fs, path, _ = parse_location(storage.checkpoint_location(1).uri)
    assert not fs.exists(path)


def test_a_shared_file_is_found_from_another_directory(place: Place) -> None:
    storage = storage_at(place)
    handle = storage.shared_location.absolute(put(storage.shared_location, "s", b"shared"))
    assert storage.checkpoint_location(3).open(handle).read() == b"shared"


def test_a_damaged_file_and_a_missing_one_are_refused_by_name(place: Place) -> None:
    location = new_location(place)
    handle = put(location, "a", b"x" * 1000)
    fs, path, _ = parse_location(f"{location.uri}/{handle.path}")
    fs.pipe_file(path, b"x" * 999 + b"y")
    with pytest.raises(CorruptSnapshotError, match=handle.path):
        location.open(handle)
    fs.pipe_file(path, b"x" * 999)
    with pytest.raises(CorruptSnapshotError, match=handle.path):
        location.open(handle)
    location.remove(handle.path)
    with pytest.raises(CorruptSnapshotError, match=handle.path):
        location.open(handle)


def test_a_snapshot_is_found_by_its_directory_and_by_its_metadata(place: Place) -> None:
    location = new_location(place)
    with pytest.raises(RestoreError, match="Cannot find"):
        resolve_snapshot(f"{place.uri}/nowhere")
    put(location, "a", b"x")
    with pytest.raises(RestoreError, match="_metadata"):
        resolve_snapshot(location.uri)
    location.write_metadata(b"m")
    for text in (location.uri, f"{location.uri}/", f"{location.uri}/_metadata"):
        assert resolve_snapshot(text) == location


def test_the_running_epoch_is_written_in_the_place_of_the_one_before(place: Place) -> None:
    store = RunningEpochStore(storage_at(place).task_owned_location)
    assert store.read() is None
    for epoch in (1, 2, 3):
        store.write(RunningEpoch(epoch, epoch, None, {"offsets/1": b"o"}))
    found = store.read()
    assert found is not None and found.epoch == 3
    store.clear()
    assert store.read() is None


def test_what_a_killed_process_left_is_found_and_swept_away(place: Place) -> None:
    storage = storage_at(place)
    incomplete = storage.savepoint_location(None)
    incomplete.create()
    put(incomplete, "a", b"x" * 100)
    sound = storage.savepoint_location(None)
    sound.create()
    sound.write_metadata(b"another team's, in a format nobody here can read")
    later = int(time.time() * 1000) + 7_200_000
    collection = GarbageCollection(
        [f"{place.uri}/savepoints"], now_ms=later, least_age_ms=3_600_000, job_state=lambda _: None
    )
    (orphan,) = collection.orphans()
    assert (orphan.kind, orphan.uri) == (OrphanKind.INCOMPLETE, incomplete.uri)
    assert collection.delete(orphan)
    assert collection.orphans() == []
    assert sound.exists


def copy_to(source: Path, uri: str) -> None:
    """Copy a directory as people do, with whatever tool their storage has."""
    fs, path, _ = parse_location(uri)
    if not uri.startswith("s3:"):
        fs.makedirs(path, exist_ok=True)
    for file in source.iterdir():
        fs.put_file(str(file), f"{path}/{file.name}")


@pytest.mark.parametrize("name", ["canonical-hashmap", "canonical-rocksdb", "compressed", "inline", "native-rocksdb"])
def test_a_savepoint_copied_to_another_filesystem_is_whole_there(shared_place: Place, name: str) -> None:
    source = SNAPSHOTS / "v0.1.0" / name
    if not (source / "_metadata").is_file():
        pytest.skip(f"no {name} among the snapshots of this version")
    copy = f"{shared_place.uri}/savepoint-83f146-0123456789ab"
    copy_to(source, copy)
    location = resolve_snapshot(copy)
    metadata = read_snapshot(location)
    assert metadata == read_snapshot(SnapshotLocation(str(source)))
    assert Verification(location, metadata).problems() == []


def test_snapshots_are_listed_where_they_lie(shared_place: Place, tmp_path: Path) -> None:
    written = write_savepoint(tmp_path / "here")
    copy = f"{shared_place.uri}/team/{written.uri.rsplit('/', 1)[-1]}"
    copy_to(Path(written.uri.removeprefix("file:")), copy)
    (found,) = find_snapshots([shared_place.uri], checkpoints=True).snapshots
    assert (found.uri, found.snapshot_id) == (copy, "0123456789ab")


def test_a_place_goes_to_another_process_with_what_reaches_it(shared_place: Place) -> None:
    location = new_location(shared_place)
    location.write_metadata(b"from the other side")
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.load(sys.stdin.buffer).read_metadata())"
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/runtime"}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(location), capture_output=True, env=environment, check=False
    )
    assert (done.stdout, done.returncode) == (b"from the other side", 0), done.stderr.decode()


def test_nothing_is_renamed_or_copied_on_an_object_store(s3_place: Place) -> None:
    assert s3_place.s3 is not None
    location = new_location(s3_place)
    put(location, "small", b"x")
    location.write_state("large", lambda file: [file.write(bytes(1 << 20)) for _ in range(12)], 0)
    location.write_metadata(b"m")
    assert s3_place.s3.copied == []
    assert sum("_metadata" in asked and asked.startswith("PUT") for asked in s3_place.s3.asked) == 1
