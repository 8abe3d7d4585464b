"""Maps and lists as rows: what is read and written, how much of it, and what is left open."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb import database, list_table, spill
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.core.state.rocksdb.rows import after_prefix, split_row_key
from tests.core.state.conftest import MAX_PARALLELISM, written

LONGS = Types.LIST(Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
LISTS = ListStateDescriptor("lists", LONGS)
COUNTS = MapStateDescriptor("counts", Types.LONG(), Types.LONG())
MAP_OF_LISTS = MapStateDescriptor("map of lists", Types.LONG(), LONGS)


class Bench:
    """One backend, and what its database is asked for."""

    def __init__(self, folder: Path) -> None:
        self.backend = RocksDBKeyedStateBackend(
            key_codec=KeyCodec(),
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=str(folder),
        )
        self.rows_read = 0
        self.gets = 0

    def use(self, key: Any, descriptor: StateDescriptor) -> Any:
        codec = self.backend.key_codec
        internal = codec.internal(key)
        self.backend.set_current_key(internal, codec.key_group(internal, MAX_PARALLELISM))
        return self.backend.get_partitioned_state(descriptor)

    def flush(self) -> None:
        self.backend.flush_epoch()

    def rows(self, name: str) -> list[tuple[bytes, bytes]]:
        store = dict(self.backend._tables.declared())[name]
        assert store.family is not None
        return list(self.backend._tables.database.freeze_scan(store.family).items())

    def to_files(self) -> list[Path]:
        """Move all that is written from memory to files; return them."""
        for family in self.backend._tables.database._families.values():
            family.rows.flush()
        return sorted(Path(self.backend._tables.database.directory).glob("*.sst"))

    def sequence_number(self) -> int:
        return int(self.backend._tables.database._rows.latest_sequence_number())

    def count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count the rows that scans and single reads take from RocksDB from now on."""
        seek, bench = database.Database._seek, self

        class Counting:
            def __init__(self, rows: Any) -> None:
                self._rows = rows
                self.value, self.next, self.status = rows.value, rows.next, rows.status

            def key(self) -> Any:
                row = self._rows.key()
                bench.rows_read += row is not None
                return row

        monkeypatch.setattr(database.Database, "_seek", lambda _, *arguments: Counting(seek(*arguments)))
        table: Any
        for _, table in self.backend._tables.declared():

            def get(row: bytes, original: Any = table._get) -> Any:
                self.gets += 1
                return original(row)

            table._get = get


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a backend; it leaves nothing behind."""
    bench = Bench(tmp_path)
    yield bench
    bench.backend.close()
    assert os.listdir(tmp_path) == []


def fill(bench: Bench, key: Any, count: int) -> None:
    for start in range(0, count, 50_000):
        bench.use(key, COUNTS).put_all({n: n for n in range(start, min(count, start + 50_000))})
        bench.flush()


def test_a_large_map_is_iterated_without_reading_more_than_is_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench, "large", 200_000)
    fill(bench, "next", 10)
    bench.count(monkeypatch)
    state = bench.use("large", COUNTS)
    assert not state.is_empty()
    assert state.contains(199_999)
    assert not state.contains(200_000)
    assert (bench.rows_read, bench.gets) == (1, 2)
    iteration = state.items()
    seen = dict(next(iteration) for _ in range(100))
    assert seen.keys() == set(seen.values())
    assert len(seen) == 100
    assert bench.rows_read <= 102
    state.put(-1, -1)
    state.remove(199_999)
    assert sum(1 for _ in iteration) == 200_000 - 100
    assert sum(1 for _ in state) == 200_000
    bench.rows_read = 0
    assert sorted(bench.use("next", COUNTS).keys()) == list(range(10))
    assert bench.rows_read == 10


def test_an_entry_is_looked_up_once_in_an_epoch_and_written_only_if_it_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for descriptor, value in ((COUNTS, 1), (MAP_OF_LISTS, [1])):
        bench.use("k", descriptor).put(1, value)
    bench.flush()
    bench.count(monkeypatch)
    number = bench.sequence_number()
    for descriptor, value in ((COUNTS, 1), (MAP_OF_LISTS, [1])):
        for _ in range(3):
            assert bench.use("k", descriptor).get(1) == value
            assert bench.use("k", descriptor).get(2) is None
            assert not bench.use("k", descriptor).contains(2)
    assert bench.gets == 4
    bench.use("k", MAP_OF_LISTS).put(1, [1])
    bench.flush()
    assert bench.sequence_number() == number
    bench.use("k", MAP_OF_LISTS).get(1).append(2)
    bench.flush()
    assert bench.sequence_number() == number + 1


def test_iterating_does_not_write_what_it_hands_out(bench: Bench) -> None:
    bench.use("k", MAP_OF_LISTS).put_all({n: [n] for n in range(10)})
    bench.flush()
    number = bench.sequence_number()
    for _, value in bench.use("k", MAP_OF_LISTS).items():
        value.append(0)
    bench.flush()
    assert bench.sequence_number() == number


@pytest.mark.parametrize("range_delete_rows", [0, 5, 1_000])
def test_a_cleared_map_loses_all_its_rows_and_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, range_delete_rows: int
) -> None:
    monkeypatch.setattr(spill, "RANGE_DELETE_ROWS", range_delete_rows)
    monkeypatch.setattr(database, "CHUNK_BYTES", 500)
    keys = ["a", "a\x00", "a\xff", "b", b"a", 1, -1, 255, 2**64 - 1]
    for key in keys:
        fill(bench, key, 300)
    for cleared in ("a", 255):
        state = bench.use(cleared, COUNTS)
        state.clear()
        state.put(7, -7)
        state.put(1000, -1000)
    bench.flush()
    for key in keys:
        entries = dict(bench.use(key, COUNTS).items())
        assert entries == ({7: -7, 1000: -1000} if key in ("a", 255) else {n: n for n in range(300)})
    reader = CanonicalReader(io.BytesIO(written(bench.backend.snapshot())))
    assert reader.entry_count("counts") == (len(keys) - 2) * 300 + 4


def test_the_rows_of_a_map_are_together_and_begin_alike(bench: Bench) -> None:
    user_keys = ["", "a", 1, 1.0, True, b"\xff" * 9]
    for key in ("a", "ab", ("a", 1)):
        for user_key in user_keys:
            bench.use(key, MapStateDescriptor("m")).put(user_key, 1)
    bench.flush()
    parts = [split_row_key(row) for row, _ in bench.rows("m")]
    assert len(parts) == 18
    assert all(sub_key[:1] == b"\x00" for _, _, sub_key in parts)
    keys = [key for _, key, _ in parts]
    assert [keys[0], keys[6], keys[12]] == [key for number, key in enumerate(keys) if number == 0 or keys[number - 1] != key]
    codec = KeyCodec()
    assert {sub_key[1:] for _, _, sub_key in parts} == {codec.encode(codec.internal(user_key)) for user_key in user_keys}


def test_after_prefix() -> None:
    for prefix in (b"\x00", b"\x00\x01", b"\x00\xff", b"\x7f\xff\xff"):
        end = after_prefix(prefix)
        assert prefix < prefix + b"\xff" * 20 < end
        assert not any(prefix < between < end for between in (prefix[:-1], end + b"\x00"))


def test_appending_writes_one_row_an_epoch_and_reads_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use("k", NUMBERS).add(-1)
    bench.flush()
    bench.count(monkeypatch)
    for epoch in range(10):
        number = bench.sequence_number()
        bench.use("k", NUMBERS).add(epoch)
        bench.use("k", NUMBERS).add_all([epoch] * 5)
        bench.flush()
        assert bench.sequence_number() == number + 1
    assert (bench.rows_read, bench.gets) == (0, 0)
    assert len(bench.rows("numbers")) == 11
    assert len(bench.use("k", NUMBERS).get()) == 61
    number = bench.sequence_number()
    bench.flush()
    assert bench.sequence_number() == number
    bench.use("k", NUMBERS).get().append(100)  # what was only appended to stays in place, too
    bench.flush()
    assert bench.sequence_number() == number + 1


@pytest.mark.parametrize("descriptor", [NUMBERS, LISTS])
def test_a_list_of_many_rows_is_written_anew_when_it_is_read(bench: Bench, descriptor: StateDescriptor) -> None:
    def element(number: int) -> Any:
        return [number] if descriptor is LISTS else number

    for epoch in range(list_table.MAX_ROWS + 1):
        for key in ("read", "unread"):
            bench.use(key, descriptor).add(element(epoch))
        if epoch == list_table.MAX_ROWS:
            assert len(bench.use("read", descriptor).get()) == epoch + 1
        bench.flush()
    assert len(bench.rows(descriptor.name)) == 2 * (list_table.MAX_ROWS + 1)
    assert len(bench.use("read", descriptor).get()) == list_table.MAX_ROWS + 1
    bench.flush()
    assert len(bench.rows(descriptor.name)) == list_table.MAX_ROWS + 2
    bench.use("unread", descriptor).get().pop(0)
    bench.flush()
    assert len(bench.rows(descriptor.name)) == 2
    expected = [element(epoch) for epoch in range(list_table.MAX_ROWS + 1)]
    assert bench.use("read", descriptor).get() == expected
    assert bench.use("unread", descriptor).get() == expected[1:]


def test_a_large_list_stands_in_several_rows_and_stays_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_table, "ROW_BYTES", 100)
    monkeypatch.setattr(list_table, "MAX_ROWS", 4)
    bench.use("k", NUMBERS).update([2**40 + n for n in range(200)])
    bench.flush()
    rows = bench.rows("numbers")
    assert len(rows) == 17
    assert max(len(value) for _, value in rows) < 150
    assert bench.use("k", NUMBERS).get() == [2**40 + n for n in range(200)]
    number = bench.sequence_number()
    bench.flush()
    assert bench.sequence_number() == number


def test_new_rows_use_buffer_restored_ones(bench: Bench, tmp_path: Path) -> None:
    for number in range(300):
        bench.use("k", NUMBERS).add(number)
        bench.flush()
    file = written(bench.backend.snapshot())
    other = Bench(tmp_path)
    try:
        other.backend.restore([io.BytesIO(file)])
        other.use("k", NUMBERS).add(300)
        other.flush()
        assert other.use("k", NUMBERS).get() == list(range(301))
    finally:
        other.backend.close()


def test_what_rocksdb_cannot_hold_is_refused_before_anything_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, words = ListStateDescriptor("texts", Types.STRING()), MapStateDescriptor("words", None, Types.STRING())
    bench.use("k", texts).add("a")
    bench.use("k", words).put("a", "a")
    bench.flush()
    number = bench.sequence_number()
    monkeypatch.setattr(database, "MAX_VALUE_BYTES", 1_000)
    bench.use("k", texts).add_all(["x" * 900] * 5)
    bench.use("k", words).put("b", "x" * 1_001)
    with pytest.raises(StateError, match=r"'words' for key 'k', map key 'b', has 1,004 bytes; RocksDB takes 1,000 at most"):
        bench.flush()
    bench.backend.rollback_epoch()
    bench.use("k", words).put("b", "b")
    bench.use("k", texts).add("x" * 1_001)
    with pytest.raises(StateError, match=r"'texts' for an element of key 'k' has 1,004 bytes"):
        bench.flush()
    bench.backend.rollback_epoch()
    assert bench.sequence_number() == number
    assert bench.use("k", texts).get() == ["a"]
    bench.use("k", texts).add_all(["x" * 900] * 5)
    bench.flush()
    assert len(bench.use("k", texts).get()) == 6


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_an_iteration_that_is_kept_keeps_no_file_open(bench: Bench, tmp_path: Path) -> None:
    fill(bench, "k", 5_000)
    assert bench.to_files()
    kept = [bench.use("k", COUNTS).items(), bench.use("k", COUNTS).keys()]
    for iteration in kept:
        next(iteration)
    bench.backend.close()
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    assert not [path for path in links if os.path.islink(path) and os.readlink(path).startswith(str(tmp_path))]
    assert os.listdir(tmp_path) == []
    for iteration in kept:
        with pytest.raises(StateError, match="after its epoch had ended"):
            next(iteration)
    for access in (lambda: bench.use("k", COUNTS), lambda: bench.backend.flush_epoch()):
        with pytest.raises(StateError, match="closed"):
            access()


def test_states_that_are_used_after_close_say_so(bench: Bench) -> None:
    counts, numbers = bench.use("k", COUNTS), bench.use("k", NUMBERS)
    bench.backend.close()
    bench.backend.set_current_key("k", 1)
    for access in (lambda: counts.get(1), lambda: list(counts.items()), counts.is_empty, numbers.get):
        with pytest.raises(StateError, match="closed"):
            access()


def test_damage_is_an_error_and_never_a_shorter_map_or_list(bench: Bench) -> None:
    words = MapStateDescriptor("words", None, Types.STRING())
    bench.use("k", words).put_all({n: f"{n:0100}" for n in range(5_000)})
    for number in range(30):
        bench.use("k", NUMBERS).add_all(list(range(number, number + 3_000)))
        bench.flush()
    for file in bench.to_files():
        data = bytearray(file.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)
        file.write_bytes(data)
    reads = (
        lambda: list(bench.use("k", words).items()),
        lambda: list(bench.use("k", words).keys()),
        lambda: [bench.use("k", words).get(number) for number in range(5_000)],
        lambda: bench.use("k", NUMBERS).get(),
        lambda: bench.backend.apply_to_all_keys(words, lambda key, state: None),
    )
    for read in reads:
        with pytest.raises(StateError, match="can't read") as caught:
            read()
        assert caught.value.where == bench.backend._tables.database.directory
