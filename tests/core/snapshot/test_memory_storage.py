"""Checkpoints in the driver's memory: all state in handles, up to a bound; `_metadata` where there is a directory."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path

import pytest

from pystate.common.errors import RestoreError, SnapshotError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.memory_storage import (
    InlineSnapshotLocation,
    MemoryCheckpointStorage,
    MemorySnapshotLocation,
    snapshot_location,
)
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, resolve_snapshot
from tests.memory import least_peak

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture(params=["memory", "directory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotLocation:
    directory = None if request.param == "memory" else str(tmp_path)
    storage = MemoryCheckpointStorage(directory, None, JOB_ID)
    storage.initialize()
    made = storage.checkpoint_location(7)
    made.create()
    return made


def test_state_up_to_the_bound_is_in_its_handle(location: SnapshotLocation, tmp_path: Path) -> None:
    assert location.inline_only
    data = bytes(range(100))
    pieces = [data[:3], memoryview(data)[3:50], bytearray(data[50:])]
    handle = location.write_state("count-0", lambda sink: [sink.write(piece) for piece in pieces], 100)
    assert isinstance(handle, ByteStreamStateHandle)
    assert (handle.data, handle.crc32) == (data, zlib.crc32(data))
    with location.open(handle) as file:
        assert file.read() == data
        file.seek(5)
        assert file.read(1) == data[5:6]
    assert location.write_state("empty", lambda sink: None, 0) == ByteStreamStateHandle(b"")
    assert files(tmp_path) == []


def test_state_above_the_bound_is_refused_in_flinks_words_with_the_remedy(
    location: SnapshotLocation, tmp_path: Path
) -> None:
    with pytest.raises(SnapshotError) as error:
        location.write_state("count-0", lambda sink: [sink.write(b"x" * 60) for _ in range(2)], 100)
    assert error.value.message == (
        "Size of the state is larger than the maximum permitted memory-backed state. Size=120, maxSize=100."
    )
    assert error.value.where == "count-0"
    for word in ("execution.checkpointing.storage = filesystem", "max-state-size", "10 mb"):
        assert word in str(error.value.hint)
    assert files(tmp_path) == []


def test_state_far_above_the_bound_is_counted_but_not_kept(location: SnapshotLocation) -> None:
    piece = bytes(1 << 16)

    def write() -> None:
        with pytest.raises(SnapshotError, match=f"Size={1000 << 16},"):
            location.write_state("big", lambda sink: [sink.write(piece) for _ in range(1000)], 1 << 18)

    assert least_peak(write) < 4 << 20


def test_what_writing_raises_is_passed_on(location: SnapshotLocation) -> None:
    with pytest.raises(ZeroDivisionError):
        location.write_state("a", lambda sink: 1 / 0, 100)


def test_a_location_goes_to_other_processes(location: SnapshotLocation) -> None:
    copy = pickle.loads(pickle.dumps(location))
    assert copy == location
    assert type(copy) is type(location)
    assert copy.uri in repr(copy)


def test_subtasks_are_sent_where_nothing_can_be_written_to_files(location: SnapshotLocation) -> None:
    there = snapshot_location(location.state_uri)
    assert type(there) is MemorySnapshotLocation
    with pytest.raises(SnapshotError, match="memory of its job's driver"):
        SnapshotLocation(location.state_uri)


def test_a_checkpoint_without_a_directory_is_nowhere() -> None:
    storage = MemoryCheckpointStorage(None, None, JOB_ID)
    storage.initialize()
    location = storage.checkpoint_location(7)
    assert location.uri == location.state_uri == f"jobmanager:/{JOB_ID}/chk-7"
    location.create()
    location.write_metadata(b"m")
    assert not location.exists
    with pytest.raises(RestoreError):
        location.read_metadata()
    location.discard()
    with pytest.raises(SnapshotError, match="no files"):
        location.open(FileStateHandle("a", 1, 0))
    assert storage.checkpoint_directories() == []
    assert snapshot_location(location.uri) == location
    with pytest.raises(SnapshotError, match="memory of its job's driver"):
        resolve_snapshot(location.uri)


def test_with_a_directory_the_metadata_is_there_and_can_be_discarded(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage(str(tmp_path), None, JOB_ID)
    storage.initialize()
    location = storage.checkpoint_location(7)
    assert type(location) is InlineSnapshotLocation
    assert location.uri == CheckpointStorageAccess(str(tmp_path), None, JOB_ID).checkpoint_location(7).uri
    location.create()
    location.write_metadata(b"m")
    assert files(tmp_path) == [f"{JOB_ID}/chk-7/_metadata"]
    assert [(number, found.uri) for number, found in storage.checkpoint_directories()] == [(7, location.uri)]
    # a later driver finds it as any other
    assert resolve_snapshot(location.uri).read_metadata() == b"m"
    assert type(snapshot_location(location.uri)) is SnapshotLocation
    location.discard()
    assert files(tmp_path) == []


def test_savepoints_go_to_files(tmp_path: Path) -> None:
    location = MemoryCheckpointStorage(None, str(tmp_path), JOB_ID).savepoint_location(None)
    assert type(location) is SnapshotLocation
    assert not location.inline_only
    location.create()
    assert isinstance(location.write_state("a", lambda sink: sink.write(b"12"), 1), FileStateHandle)
