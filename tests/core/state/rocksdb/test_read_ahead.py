"""Reading ahead: a batch's keys are read together, which never shows in what user code sees, and stops where it's vain."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb import value_cache
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.core.state.rocksdb.value_cache import MAX_KEYS, TRIAL_KEYS, ValueCache, read_ahead

MAX_PARALLELISM = 8


class Bench:
    """A backend with a LONG, a LIST and a write-only state."""

    def __init__(self, folder):
        self.codec = KeyCodec(Types.STRING())
        self.backend = RocksDBKeyedStateBackend(
            key_codec=self.codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=str(folder),
        )
        self.count = self.backend.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))
        self.recent = self.backend.get_partitioned_state(ValueStateDescriptor("recent", Types.LIST(Types.LONG())))

    def table(self, name):
        return dict(self.backend._tables.declared())[name]

    def set_key(self, key):
        self.backend.set_current_key(key, self.codec.key_group(key, MAX_PARALLELISM))

    def announce(self, keys):
        self.backend.prefetch(keys, [self.codec.key_group(key, MAX_PARALLELISM) for key in keys])

    def single_reads(self, name, monkeypatch):
        """Return a list to which each row that is read by itself is added."""
        table, reads = self.table(name), []
        get = table._get

        def counted(row):
            if not isinstance(row, list):
                reads.append(row)
            return get(row)

        monkeypatch.setattr(table, "_get", counted)
        return reads


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.backend.close()


def test_what_was_read_ahead_is_not_read_again(bench, monkeypatch):
    keys = [f"k{number}" for number in range(20)]
    for number, key in enumerate(keys):
        bench.set_key(key)
        bench.count.update(number)
    bench.backend.flush_epoch()
    reads = bench.single_reads("count", monkeypatch)
    bench.announce([*keys, *keys, "absent"])
    for number, key in enumerate(keys):
        bench.set_key(key)
        assert bench.count.value() == number
        bench.count.update(number + 100)
        assert bench.count.value() == number + 100
    bench.set_key("absent")
    assert bench.count.value() is None
    assert reads == []


def test_each_epoch_sees_what_the_one_before_wrote(bench):
    for epoch in range(5):
        bench.announce(["a", "b"])
        for key in ("a", "b"):
            bench.set_key(key)
            assert bench.count.value() == (epoch or None)
            assert bench.recent.value() == (list(range(epoch)) or None)
            bench.count.update(epoch + 1)
            bench.recent.update(list(range(epoch + 1)))
        bench.announce(["a", "b"])
        bench.set_key("a")
        assert bench.count.value() == epoch + 1
        bench.backend.flush_epoch()


def test_a_rollback_forgets_what_was_read_ahead(bench):
    bench.set_key("a")
    bench.count.update(1)
    bench.backend.flush_epoch()
    bench.announce(["a"])
    bench.set_key("a")
    bench.count.clear()
    bench.announce(["a"])
    assert bench.count.value() is None
    bench.backend.rollback_epoch()
    bench.announce(["a"])
    bench.set_key("a")
    assert bench.count.value() == 1


def test_a_change_in_place_of_what_was_read_ahead_is_kept(bench):
    bench.set_key("a")
    bench.recent.update([1])
    bench.backend.flush_epoch()
    bench.announce(["a"])
    bench.set_key("a")
    bench.recent.value().append(2)
    bench.backend.flush_epoch()
    bench.set_key("a")
    assert bench.recent.value() == [1, 2]


def test_a_state_that_is_read_is_read_ahead_for_the_whole_batch_and_one_that_is_only_written_is_not(bench):
    keys = [f"k{number:04d}" for number in range(5 * TRIAL_KEYS)]
    for epoch in range(3):
        bench.announce(keys)
        ahead = len(bench.table("count")._cache._ahead), len(bench.table("recent")._cache._ahead)
        for key in keys:
            bench.set_key(key)
            bench.count.update((bench.count.value() or 0) + 1)
            bench.recent.update([epoch])
        bench.backend.flush_epoch()
        assert ahead == (TRIAL_KEYS if epoch == 0 else len(keys), TRIAL_KEYS)


def test_a_read_error_names_the_folder(bench, monkeypatch):
    def broken(rows):
        message = "IO error: bad block"
        raise Exception(message)  # noqa: TRY002 - as rocksdict does

    monkeypatch.setattr(bench.table("count"), "_get", broken)
    with pytest.raises(StateError, match="bad block") as caught:
        bench.announce(["a"])
    assert caught.value.where


def test_the_share_that_is_asked_for_decides():
    cache = ValueCache(0)

    def learn(fetched, used):
        cache.add_ahead(dict.fromkeys(range(fetched), 1))
        for key in range(used):
            assert cache.recall(key) == 1
        cache.end_ahead()
        cache.end_epoch()

    learn(0, 0)
    assert cache.ahead_limit() == TRIAL_KEYS
    learn(64, 60)
    assert cache.ahead_limit() == MAX_KEYS
    learn(1000, 100)
    assert cache.ahead_limit() == TRIAL_KEYS
    learn(64, 64)
    learn(64, 64)
    assert cache.ahead_limit() == MAX_KEYS


def test_absent_keys_do_not_keep_others_from_being_read_ahead_as_values(bench, monkeypatch):
    for number in range(10):
        bench.set_key(f"k{number}")
        bench.count.update(number)
    bench.backend.flush_epoch()
    bench.announce([f"k{number}" for number in range(20)])
    ahead = bench.table("count")._cache._ahead
    assert ahead == {f"k{number}": number if number < 10 else None for number in range(20)}


def test_a_damaged_value_is_reported_when_it_is_read_not_before(bench):
    for key in ("a", "b"):
        bench.set_key(key)
        bench.count.update(1)
    bench.backend.flush_epoch()
    table = bench.table("count")
    row = next(row for row, _ in table.scan_between(b"", b"\xff") if row.endswith(b"a"))
    bench.backend._tables.database.write(table.family, [(row, b"\xc1")])
    bench.backend._tables.database.end_write()
    bench.announce(["a", "b"])
    bench.set_key("b")
    assert bench.count.value() == 1
    bench.set_key("a")
    with pytest.raises(CorruptSnapshotError, match="damaged"):
        bench.count.value()


def test_large_values_end_the_reading(monkeypatch):
    monkeypatch.setattr(value_cache, "MAX_BYTES", 1000)
    asked = []

    def get(rows):
        asked.extend(rows)
        return [bytes(100) for _ in rows]

    rows = [b"%04d" % number for number in range(500)]
    values = read_ahead(rows, get)
    assert len(values) == len(asked) == 16
    assert read_ahead(rows[:10], lambda part: [None] * len(part)) == [None] * 10
