"""What is told of a restore while it runs: bytes of canonical files as they are read, of native ones file by file."""

from __future__ import annotations

import io

import pytest

from pystate.common import Types
from pystate.common.key_groups import key_group_range
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.native_state import NativeUpload, SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restore_progress import RestoreProgress, bytes_to_read
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

MAX_PARALLELISM = 16
VALUE = ValueStateDescriptor("value", Types.STRING())


class Watched(RestoreProgress):
    def __init__(self):
        super().__init__()
        self.seen = []

    def add(self, number):
        super().add(number)
        self.seen.append(self.done)


@pytest.fixture
def backend(tmp_path):
    made = []

    def make(kind, index=0, parallelism=1):
        made.append(
            create_state_backend(
                kind,
                key_codec=KeyCodec(Types.LONG()),
                key_group_range=key_group_range(index, parallelism, MAX_PARALLELISM),
                max_parallelism=MAX_PARALLELISM,
                working_directory=str(tmp_path),
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def fill(backend, keys):
    codec, state = backend.key_codec, backend.get_partitioned_state(VALUE)
    for key in range(keys):
        backend.set_current_key(key, codec.key_group(key, MAX_PARALLELISM))
        state.update(f"{key:0200}")
    backend.flush_epoch()


def snapshot(backend, tmp_path, *, native):
    location, shared = SnapshotLocation(str(tmp_path / "chk")), SnapshotLocation(str(tmp_path / "shared"))
    for name in ("chk", "shared"):
        (tmp_path / name).mkdir()
    frozen = KeyedSnapshots(backend).freeze(1, SharedTarget(shared, "1-") if native else None)
    if isinstance(frozen, NativeUpload):
        handle = frozen.write(location, "1", 0)
    else:
        state = location.write_state("1", frozen.write_canonical, 0)
        groups = backend.key_group_range
        handle = KeyedStateHandle(groups.start, groups.end, "canonical", state)
    frozen.release()
    return location, handle


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_the_bytes_of_a_canonical_file_count_as_they_are_read(backend, tmp_path, kind):
    old = backend(kind)
    fill(old, 3000)
    location, handle = snapshot(old, tmp_path, native=False)
    halves = 0
    for index in range(2):
        new, progress = backend(kind, index, 2), Watched()
        KeyedSnapshots(new).restore(RestoredOperator(location.uri, [handle], progress=progress))
        expected = bytes_to_read(handle, new.key_group_range)
        assert progress.done == expected
        assert len(progress.seen) > 3
        assert progress.seen == sorted(progress.seen)
        assert progress.seen[-1] <= expected
        assert progress.seen[0] < expected / 2
        halves += expected
    assert handle.state_size - 2 <= halves <= handle.state_size


def test_the_files_of_a_native_snapshot_count_one_by_one(backend, tmp_path):
    old = backend("rocksdb")
    fill(old, 100)
    location, handle = snapshot(old, tmp_path, native=True)
    new, progress = backend("rocksdb", 0, 2), Watched()
    KeyedSnapshots(new).restore(RestoredOperator(location.uri, [handle], progress=progress))
    assert progress.done == bytes_to_read(handle, new.key_group_range)
    assert len(progress.seen) == len(handle.files)


def test_no_more_counts_of_a_file_than_was_expected():
    progress = RestoreProgress()
    with progress.reading(io.BytesIO(b"x" * 100), 30) as file:
        file.read(20)
        file.seek(0)
        file.read(100)
        assert progress.done == 30
    assert progress.done == 30
    with progress.reading(io.BytesIO(b"x" * 100), 50) as file:
        file.read(10)
        assert progress.done == 40
    assert progress.done == 80
