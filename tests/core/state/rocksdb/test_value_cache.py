"""Committed values that stay in memory: state is what it is without the cache, in snapshots and views, too."""

from __future__ import annotations

import copy
import io
import os
import random
import shutil
import tempfile
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.key_groups import KeyGroupRange
from pystate.common.time import Time
from pystate.core.api.state import StateTtlConfig, ValueStateDescriptor
from pystate.core.state.base.backend_snapshot import NativeSource
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.core.state.rocksdb.value_cache import MISSING, UnwrittenRows, ValueCache
from pystate.core.state.rocksdb.value_table import RocksDBTable
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written
from tests.core.state.contract.test_committed_views import KEYS, Run, descriptors, found, namespaces_of

SIZE = "state.backend.rocksdb.object-cache.size"
SMALL, LARGE = {SIZE: "1 kb"}, {SIZE: "64 mb"}


def cached(settings: dict[str, str], name: str = "rocksdb") -> BackendHarness:
    return BackendHarness(name, settings=settings)


def check(harness: BackendHarness, model: dict[str, dict[tuple[str, Any], Any]]) -> None:
    """Compare all state of a harness with a model, as a function reads it."""
    declared = descriptors()
    for name, of_state in model.items():
        for key in KEYS:
            for namespace in range(3) if name == "windowed" else (None,):
                handle = harness.at(key).get_or_create_keyed_state(declared[name], namespaces_of(name))
                if namespace is not None:
                    handle.set_current_namespace(namespace)
                expected = of_state.get((key, namespace))
                if name == "map":
                    assert dict(handle.state.items()) == (expected or {})
                elif name == "list":
                    assert handle.state.get() == (expected or [])
                elif name in ("value", "mutable", "windowed"):
                    assert handle.state.value() == expected
                elif name == "reducing":
                    assert handle.state.get() == expected
                else:
                    assert handle.state.get() == (None if expected is None else expected[0] / expected[1])
    harness.rollback()


@pytest.mark.parametrize("settings", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("seed", range(3))
def test_state_and_snapshots_are_those_without_a_cache(settings: dict[str, str], seed: int) -> None:
    run = Run(cached(settings), seed)
    snapshots: list[tuple[Any, Any]] = []
    for epoch in range(30):
        run.epoch()
        if epoch % 3 == 0:
            snapshots.append((run.harness.snapshot(), copy.deepcopy(run.flushed)))
        if len(snapshots) > 2:
            frozen, model = snapshots.pop(0)
            restored = run.harness.restored([written(one) for one in frozen], 2, run.random.choice(["rocksdb", "hashmap"]))
            check(restored, model)
        if epoch % 7 == 6:
            frozen = run.harness.snapshot()
            run.harness = run.harness.restored([written(one) for one in frozen])
            run.running = copy.deepcopy(run.flushed)
        check(run.harness, run.flushed)
        run.running = copy.deepcopy(run.flushed)
    for frozen, _ in snapshots:
        for one in frozen:
            one.release()


def test_an_epoch_that_goes_to_disk_finds_what_the_cache_had() -> None:
    harness = cached({**LARGE, "pystate.state.epoch-memory": "1 b"})
    state = ValueStateDescriptor("value", Types.LONG())
    for epoch in range(5):
        for key in KEYS:
            value = harness.use(key, state)
            value.update((value.value() or 0) + 1)
            if epoch in (1, 3):
                harness.backend.limit_epoch(1, 1)
        harness.flush()
    assert [harness.use(key, state).value() for key in KEYS] == [5] * len(KEYS)


def test_a_rolled_back_epoch_leaves_no_trace_in_the_cache() -> None:
    harness = cached(LARGE)
    state = ValueStateDescriptor("value", Types.LONG())
    harness.use("k", state).update(1)
    harness.flush()
    harness.use("k", state).update(2)
    assert harness.use("new", state).value() is None
    harness.use("new", state).update(3)
    harness.rollback()
    assert harness.use("k", state).value() == 1
    assert harness.use("new", state).value() is None
    harness.flush()
    assert sorted(harness.backend.get_keys("value")) == ["k"]


def test_keys_are_found_that_rocksdb_does_not_have_yet() -> None:
    harness = cached(LARGE)
    state = ValueStateDescriptor("value", Types.LONG())
    for key in KEYS:
        harness.use(key, state).update(1)
    harness.flush()
    harness.use(KEYS[0], state).clear()
    harness.flush()
    assert sorted(harness.backend.get_keys("value")) == sorted(KEYS[1:])
    assert harness.entry_count() == len(KEYS) - 1
    seen: list[Any] = []
    harness.backend.apply_to_all_keys(state, lambda key, one: seen.append((key, one.value())))
    assert sorted(seen) == [(key, 1) for key in sorted(KEYS[1:])]


def test_readers_from_outside_see_committed_values() -> None:
    harness = cached(LARGE)
    state = descriptors()["value"]
    for number in range(3):
        harness.use("k", state).update(number)
        harness.flush()
        view = harness.backend.committed_view()
        assert found(view, harness.backend, "value", "k") == number
        view.close()


def rows_of(backend: KeyedStateBackend) -> int:
    """Return how many rows RocksDB has by itself."""
    assert isinstance(backend, RocksDBKeyedStateBackend)
    tables = backend._tables
    return sum(tables.database.count(family) for _, family, _ in tables.families())


def test_an_epoch_does_not_write_until_there_is_too_much() -> None:
    harness = cached({SIZE: "20 kb"})
    state = ValueStateDescriptor("value", Types.LONG())
    for _ in range(5):
        for key in KEYS:
            harness.use(key, state).update(7)
        harness.flush()
    assert rows_of(harness.backend) == 0
    for number in range(2_000):
        harness.use(f"key-{number}", state).update(number)
        if number % 100 == 99:
            harness.flush()
    assert rows_of(harness.backend) > 1_000
    for number in range(0, 2_000, 37):
        assert harness.use(f"key-{number}", state).value() == number


@pytest.mark.parametrize("most", [0, 3])
def test_a_native_snapshot_has_all_and_barriers_have_little_to_write(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("pystate.core.state.rocksdb.rocksdb_keyed_state_backend.MAX_DIRTY", most)
    settings = {**LARGE, "execution.checkpointing.incremental": "true"}
    harness = cached(settings)
    state = ValueStateDescriptor("value", Types.LONG())
    for key in KEYS:
        harness.use(key, state).update(len(key))
    harness.flush()
    assert rows_of(harness.backend) == len(KEYS)
    harness.use(KEYS[0], state).update(100)
    harness.flush()
    assert rows_of(harness.backend) == len(KEYS)
    native = harness.backend.snapshot_native()
    assert native is not None
    folder = tempfile.mkdtemp(dir=harness._folder)
    for name, path in {**native.shared_files, **native.private_files}.items():
        shutil.copy(path, os.path.join(folder, name))
    meta = io.BytesIO()
    native.write_meta(meta)
    native.release()
    meta.seek(0)
    groups = KeyGroupRange(0, MAX_PARALLELISM - 1)
    restored = cached(settings)
    restored.backend.restore_native([NativeSource(folder, meta, "here", groups)])
    assert [restored.use(key, state).value() for key in KEYS] == [100, *map(len, KEYS[1:])]


def test_values_that_expire_are_not_cached() -> None:
    harness = cached(LARGE)
    state = ValueStateDescriptor("value", Types.LONG())
    state.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(100)).build())
    harness.use("k", state).update(1)
    harness.flush()
    assert rows_of(harness.backend) == 1


def test_what_is_not_asked_for_goes_first() -> None:
    cache = ValueCache(1)  # so small that each turn lets a generation go
    cache.put_all([("asked", 1), ("not", 2)], {"asked": 0, "not": 1})
    assert not cache.turn(), "the generation before was empty"
    assert cache.recall("asked") == 1
    assert cache.turn(), "RocksDB doesn't have what goes"
    assert cache.recall("not") is MISSING
    assert cache.recall("asked") == 1
    assert cache.take_dirty() == ({"asked": 1, "not": 2}, {"asked": 0, "not": 1})
    assert not cache.turn(), "nothing is dirty any more"


def test_what_is_nowhere_needs_no_removal() -> None:
    cache = ValueCache(1_000)
    cache.young["absent"] = None  # read, and found to be absent
    cache.put_all([("absent", None), ("unknown", None)], {"absent": 0, "unknown": 0})
    assert cache.dirty == {"unknown": None}


def test_without_room_nothing_outlasts_the_epoch() -> None:
    cache = ValueCache(0)
    cache.young["read"] = 1
    assert cache.excess_bytes() > 0
    cache.end_epoch()
    assert cache.peek("read") is MISSING


def test_an_epoch_that_reads_much_and_writes_nothing_takes_no_more_than_the_cache_may() -> None:
    cache = ValueCache(100_000)
    cache.put_all([("changed", 7)], {"changed": 0})
    for epoch in range(3):
        cache.young.update({(epoch, number): number for number in range(2_000)})
        assert cache.excess_bytes() > 0, "it counts as the epoch's"
        if epoch == 2:
            assert cache.take_dirty()[0] == {"changed": 7}
        cache.end_epoch()
        assert (cache.excess_bytes() > 0) == (epoch == 1), "what is changed stays until it is written"


def test_what_is_dropped_after_a_visit_is_what_rocksdb_has() -> None:
    cache = ValueCache(1)
    cache.put_all([("k", 1)], {"k": 0})
    cache.turn()
    cache.put_all([("k", 2)], {"k": 0})
    cache.forget("k")
    assert cache.peek("k") == 2, "RocksDB doesn't have it"
    cache.take_dirty()
    cache.forget("k")
    assert cache.peek("k") is MISSING, "not the older one"


def test_a_visit_of_all_keys_evicts_nothing_and_keeps_nothing() -> None:
    harness = cached(LARGE)
    state = ValueStateDescriptor("value", Types.LONG())
    for key in KEYS:
        harness.use(key, state).update(1)
    harness.flush()
    backend = harness.backend
    assert isinstance(backend, RocksDBKeyedStateBackend)
    table = dict(backend._tables.declared())["value"]
    assert isinstance(table, RocksDBTable)
    backend._tables.write_back()
    table._cache.clear()
    assert harness.use(KEYS[0], state).value() == 1
    seen: list[Any] = []
    backend.apply_to_all_keys(state, lambda key, one: seen.append(one.value()))
    assert seen == [1] * len(KEYS)
    assert [key for key in KEYS if table._cache.peek(key) is not MISSING] == [KEYS[0]]
    harness.flush()
    assert table._cache.peek(KEYS[0]) == 1


def test_newer_rows_stand_in_the_place_of_older_ones() -> None:
    chance = random.Random(1)
    for _ in range(200):
        stored = {bytes([chance.randrange(20)]): b"old" for _ in range(chance.randrange(10))}
        newer = {bytes([chance.randrange(20)]): chance.choice([b"new", None]) for _ in range(chance.randrange(10))}
        rows = UnwrittenRows(newer.items)
        expected = {key: value for key, value in {**stored, **newer}.items() if value is not None}
        pieces = sorted(stored.items())
        cut = chance.randrange(len(pieces) + 1)
        batches = [batch for batch in (pieces[:cut], pieces[cut:]) if batch]
        found = list(rows.over(batches))
        assert [pair for batch in found for pair in batch] == sorted(expected.items())
        assert all(found), "no batch is empty"
