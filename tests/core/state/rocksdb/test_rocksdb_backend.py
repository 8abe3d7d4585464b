"""What RocksDB can break: chunks, half-written epochs, the order of rows, files and threads left behind, damage, memory."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from pystate.common import TypeInformation, Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import ConfigurationError, RestoreError, SnapshotError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb import database
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory, process_memory
from pystate.core.state.rocksdb.rows import split_row_key
from tests.core.state.conftest import MAX_PARALLELISM, written

LIST = Types.LIST(Types.LONG())


class Bench:
    """One backend, and its states by key."""

    def __init__(self, backend: RocksDBKeyedStateBackend) -> None:
        self.backend = backend

    def state(self, key: Any, name: str = "s", type_info: TypeInformation | None = None) -> Any:
        codec = self.backend.key_codec
        internal = codec.internal(key)
        self.backend.set_current_key(internal, codec.key_group(internal, MAX_PARALLELISM))
        return self.backend.get_partitioned_state(ValueStateDescriptor(name, type_info))

    def rows(self, name: str = "s") -> list[tuple[bytes, bytes]]:
        store = dict(self.backend._tables.declared())[name]
        return list(self.backend._tables.database.freeze_scan(store.family).items())

    def to_files(self) -> list[Path]:
        """Move all that is written from memory to files; return them."""
        for family in self.backend._tables.database._families.values():
            family.rows.flush()
        return sorted(Path(self.backend._tables.database.directory).glob("*.sst"))


Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return a maker of backends in one working directory; they are closed in the end."""
    made: list[KeyedStateBackend] = []

    def new(**arguments: Any) -> Bench:
        arguments.setdefault("working_directory", str(tmp_path))
        backend = RocksDBKeyedStateBackend(
            key_codec=KeyCodec(),
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            **arguments,
        )
        made.append(backend)
        return Bench(backend)

    yield new
    for backend in made:
        backend.close()


@pytest.fixture
def bench(make: Make) -> Bench:
    """Return a backend."""
    return make()


class _FailingWrites:
    """A database handle whose writes fail from the n-th on, as on a full disk."""

    def __init__(self, rows: Rdict, good: int) -> None:
        self._rows, self._good = rows, good

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def write(self, *arguments: Any) -> None:
        if self._good == 0:
            message = "IO error: No space left on device"
            raise Exception(message)
        self._good -= 1
        self._rows.write(*arguments)


def test_an_epoch_larger_than_a_chunk_is_written_in_several(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CHUNK_BYTES", 200)
    rows = bench.backend._tables.database._rows
    writes: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(rows, name)

        def write(self, batch: Any, options: Any) -> None:
            writes.append(len(batch))
            rows.write(batch, options)

    monkeypatch.setattr(bench.backend._tables.database, "_rows", Counting())
    for key in range(100):
        bench.state(key, "a").update(key)
        bench.state(key, "b", LIST).update([key])
    bench.backend.flush_epoch()
    assert len(writes) > 5
    assert sum(writes) == 200
    assert [bench.state(key, "a").value() for key in range(100)] == list(range(100))
    assert [bench.state(key, "b", LIST).value() for key in range(100)] == [[key] for key in range(100)]


@pytest.mark.parametrize("good_writes", [0, 3])
def test_a_backend_that_holds_half_an_epoch_gives_it_to_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, good_writes: int
) -> None:
    bench.state("before").update(1)
    bench.backend.flush_epoch()
    before = bench.backend.snapshot()
    for key in range(100):
        bench.state(key).update(key)
    monkeypatch.setattr(database, "CHUNK_BYTES", 200)
    handle = bench.backend._tables.database._rows
    monkeypatch.setattr(bench.backend._tables.database, "_rows", _FailingWrites(handle, good_writes))
    with pytest.raises(StateError, match="No space left") as caught:
        bench.backend.flush_epoch()
    assert caught.value.where == bench.backend._tables.database.directory
    bench.backend.rollback_epoch()
    monkeypatch.setattr(bench.backend._tables.database, "_rows", handle)
    for refused in (bench.backend.flush_epoch, bench.backend.snapshot, bench.backend.entry_count):
        with pytest.raises(StateError, match=r"half an epoch.*No space left"):
            refused()
    other = io.BytesIO(written(before))
    assert CanonicalReader(other).entry_count("s") == 1


def test_rows_are_ordered_by_key_group_and_none_begins_another(bench: Bench) -> None:
    keys = ["", "a", "a\x00", "a\x00\x00\x00\x01a", "aa", b"", b"a", b"a\x00", 0, 1, -1, 256, 2**70, ("a",), ("a", "")]
    keys += [f"key-{number}" for number in range(200)]
    for key in keys:
        bench.state(key).update(1)
    bench.backend.flush_epoch()
    rows = [row for row, _ in bench.rows()]
    assert rows == sorted(rows)
    parts = [split_row_key(row) for row in rows]
    groups = [group for group, _, _ in parts]
    assert groups == sorted(groups)
    codec = bench.backend.key_codec
    expected = {(codec.key_group(k, MAX_PARALLELISM), codec.encode(k), b"") for k in map(codec.internal, keys)}
    assert set(parts) == expected
    heads = [row[: 6 + len(key)] for row, (_, key, _) in zip(rows, parts, strict=True)]
    assert not any(a != b and b.startswith(a) for a in heads for b in heads)
    reader = CanonicalReader(io.BytesIO(written(bench.backend.snapshot())))
    assert list(reader.key_groups()) == sorted(set(groups))


def test_a_missing_key_is_looked_up_once_in_an_epoch(bench: Bench) -> None:
    for type_info in (Types.LONG(), LIST):
        state = bench.state("k", str(type_info), type_info)
        store = dict(bench.backend._tables.declared())[str(type_info)]
        asked: list[bytes] = []
        store._get = lambda row, asked=asked: asked.append(row)
        for _ in range(5):
            assert bench.state("k", str(type_info), type_info).value() is None
        assert len(asked) == 1
        bench.backend.rollback_epoch()
        bench.state("k", str(type_info), type_info)
        assert state.value() is None
        assert len(asked) == 2


def test_an_unchanged_value_is_not_written_again(bench: Bench) -> None:
    bench.state("k", type_info=LIST).update([1])
    bench.backend.flush_epoch()
    number = bench.backend._tables.database._rows.latest_sequence_number()
    assert bench.state("k", type_info=LIST).value() == [1]
    bench.state("k", type_info=LIST).update([1])
    bench.state("missing", type_info=LIST).value()
    bench.state("missing", type_info=LIST).clear()
    bench.backend.flush_epoch()
    assert bench.backend._tables.database._rows.latest_sequence_number() == number


@pytest.mark.parametrize(("type_info", "value"), [(Types.STRING(), "x" * 2_000), (LIST, list(range(2_000)))])
def test_a_value_that_is_too_large_is_refused_with_its_size(
    bench: Bench, make: Make, monkeypatch: pytest.MonkeyPatch, type_info: TypeInformation, value: Any
) -> None:
    bench.state("small", type_info=type_info).update(value[:10])
    bench.state("large", type_info=type_info).update(value)
    bench.backend.flush_epoch()
    file = written(bench.backend.snapshot())
    monkeypatch.setattr(database, "MAX_VALUE_BYTES", 1_000)
    bench.state("small", type_info=type_info).update(value[:20])
    bench.state("large", type_info=type_info).update([*value, 1] if type_info is LIST else f"{value}!")
    with pytest.raises(StateError, match=r"'s' for key 'large' has [1-9],\d{3} bytes; RocksDB takes 1,000 at most"):
        bench.backend.flush_epoch()
    bench.backend.rollback_epoch()
    assert bench.state("small", type_info=type_info).value() == value[:10]
    bench.backend.flush_epoch()
    target = make()
    with pytest.raises(RestoreError, match=r"[1-9],\d{3} bytes; RocksDB takes 1,000"):
        target.backend.restore([io.BytesIO(file)])
    assert target.backend.entry_count() == 0


def _open_files(folder: Path) -> list[str]:
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return [target for link in links if os.path.islink(link) and (target := os.readlink(link)).startswith(str(folder))]


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_close_leaves_no_file_and_no_thread_and_the_folder_can_be_used_again(make: Make, tmp_path: Path) -> None:
    threads = []
    for _ in range(4):
        bench = make()
        state = bench.state("k", type_info=LIST)
        state.update([1])
        bench.backend.flush_epoch()
        bench.to_files()
        assert _open_files(tmp_path)
        snapshot = bench.backend.snapshot()
        written(snapshot)
        bench.backend.close()
        assert _open_files(tmp_path) == []
        assert os.listdir(tmp_path) == []
        threads.append(_threads())
    assert threads[1:] == threads[1:2] * 3


def test_the_last_snapshot_closes_what_close_left_open(bench: Bench, tmp_path: Path) -> None:
    bench.state("k").update(1)
    bench.backend.flush_epoch()
    first, second = bench.backend.snapshot(), bench.backend.snapshot()
    bench.backend.close()
    first.release()
    first.release()
    sink = io.BytesIO()
    assert second.write_canonical(sink).entries == 1
    assert len(os.listdir(tmp_path)) == 1
    thread = threading.Thread(target=second.release)
    thread.start()
    thread.join()
    assert os.listdir(tmp_path) == []


def test_a_state_that_is_used_after_close_says_so(bench: Bench) -> None:
    state = bench.state("k", type_info=Types.LONG())
    bench.backend.close()
    bench.backend.set_current_key("k", 1)
    with pytest.raises(StateError, match="closed"):
        state.value()
    for refused in (bench.backend.flush_epoch, bench.backend.snapshot):
        with pytest.raises(StateError, match="closed"):
            refused()


@pytest.mark.parametrize("name", ["default", "a/b", "..", " ", "ü", "a\x00b", "%41", "A", "x" * 300])
def test_a_state_may_have_any_name(bench: Bench, make: Make, name: str) -> None:
    bench.state("k", name).update(1)
    bench.state("k", "other").update(2)
    bench.backend.flush_epoch()
    target = make()
    target.backend.restore([io.BytesIO(written(bench.backend.snapshot()))])
    assert (target.state("k", name).value(), target.state("k", "other").value()) == (1, 2)


def test_a_working_directory_that_cannot_be_used_is_named(make: Make, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(StateError, match="working folder") as caught:
        make(working_directory=missing)
    assert caught.value.where == missing
    with pytest.raises(ConfigurationError, match="working directory"):
        create_state_backend("rocksdb", key_codec=KeyCodec(), key_group_range=KeyGroupRange(0, 1), max_parallelism=2)


def test_a_database_that_cannot_be_opened_is_named_and_leaves_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def new_folder(prefix: str, dir: str) -> str:
        folder = Path(dir) / f"{prefix}x"
        folder.mkdir()
        (folder / "CURRENT").write_text("MANIFEST-000009\n")
        return str(folder)

    monkeypatch.setattr(database.tempfile, "mkdtemp", new_folder)
    with pytest.raises(StateError, match="RocksDB can't open a database") as caught:
        make()
    assert caught.value.where == str(tmp_path / "rocksdb-x")
    assert os.listdir(tmp_path) == []


def test_a_damaged_file_is_an_error_and_never_a_shorter_snapshot(bench: Bench) -> None:
    for key in range(2_000):
        bench.state(key, type_info=Types.STRING()).update(f"{key:0100}")
    bench.backend.flush_epoch()
    (file,) = bench.to_files()
    data = bytearray(file.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    file.write_bytes(data)
    snapshot = bench.backend.snapshot()
    with pytest.raises(SnapshotError, match="can't read") as caught:
        snapshot.write_canonical(io.BytesIO())
    snapshot.release()
    assert caught.value.where == bench.backend._tables.database.directory
    with pytest.raises(StateError, match="can't read"):
        for key in range(2_000):
            bench.state(key, type_info=Types.STRING()).value()
    with pytest.raises(SnapshotError, match="can't read"):
        bench.backend.entry_count()


def test_a_snapshot_that_is_written_twice_is_the_same_twice(bench: Bench) -> None:
    for number in range(1_000):
        bench.state(number).update(str(number))
    bench.backend.flush_epoch()
    snapshot = bench.backend.snapshot()
    bench.state(5).update("later")
    bench.backend.flush_epoch()
    sinks = [io.BytesIO(), io.BytesIO()]
    for sink in sinks:
        snapshot.write_canonical(sink)
    snapshot.release()
    assert sinks[0].getvalue() == sinks[1].getvalue()


def test_write_buffers_and_cache_stay_within_the_memory_they_share(make: Make) -> None:
    memory = RocksDBMemory.of_bytes(16 << 20)
    benches = [make(memory=memory), make(memory=memory)]
    largest = 0
    for epoch in range(8):
        for bench in benches:
            for key in range(2_000):
                bench.state((epoch, key), type_info=Types.STRING()).update(f"{key}" * 250)
            bench.backend.flush_epoch()
            largest = max(largest, memory.write_buffers.get_usage())
    assert all(bench.backend.entry_count() == 16_000 for bench in benches)
    # 8 MB, and what is written until a flush has given its buffer back
    assert 2 << 20 < largest < 16 << 20
    for bench in benches:
        for key in range(0, 2_000, 7):
            assert bench.state((0, key), type_info=Types.STRING()).value() == f"{key}" * 250
    assert memory.cache.get_usage() <= 17 << 20


def test_the_backends_of_a_process_share_the_memory_they_are_given(make: Make) -> None:
    memory = process_memory(RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE.default, RocksDBOptions.WRITE_BUFFER_RATIO.default)
    before = memory.write_buffers.get_usage()
    for bench in (make(), make()):
        bench.state("k").update("x" * 1_000_000)
        bench.backend.flush_epoch()
    assert memory.write_buffers.get_usage() >= before + 2_000_000


def test_the_memory_of_a_slot_is_what_the_options_say(make: Make) -> None:
    configuration = Configuration()
    configuration.set(RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE, 20 << 20)
    configuration.set(RocksDBOptions.WRITE_BUFFER_RATIO, 0.25)
    memory = process_memory(20 << 20, 0.25)
    assert memory.write_buffers.get_buffer_size() == 5 << 20
    bench = make(configuration=configuration)
    bench.state("k").update("x" * 1_000_000)
    bench.backend.flush_epoch()
    assert memory.write_buffers.get_usage() >= 1_000_000
    configuration.set(RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE, 1000)
    with pytest.raises(ConfigurationError, match="1,000 bytes") as caught:
        make(configuration=configuration)
    assert caught.value.where == "state.backend.rocksdb.memory.fixed-per-slot"


def test_a_snapshot_costs_no_flush(bench: Bench) -> None:
    for key in range(5_000):
        bench.state(key).update("x" * 100)
    bench.backend.flush_epoch()
    snapshot = bench.backend.snapshot()
    assert list(Path(bench.backend._tables.database.directory).glob("*.sst")) == []
    bench.state(1).update("changed")
    bench.backend.flush_epoch()
    bench.to_files()
    for family in bench.backend._tables.database._families.values():
        family.rows.compact_range(None, None)
    reader = CanonicalReader(io.BytesIO(written(snapshot)))
    assert reader.entry_count("s") == 5_000
    values = {value for group in reader.key_groups() for _, _, value in reader.entries("s", group)}
    assert len(values) == 1
