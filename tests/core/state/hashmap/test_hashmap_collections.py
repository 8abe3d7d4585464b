"""Dicts and lists in tables: what is changed in place, what is copied, what is left behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pystate.common import Types
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.state.hashmap import hashmap_table as table
from pystate.core.state.keys.keys import _TextKeys
from pystate.core.state.rocksdb.value_cache import TRIAL_KEYS
from pystate.core.state.values.serializers import _QuickSerializer
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written

NUMBERS = ListStateDescriptor("s", Types.LONG())
COUNTS = MapStateDescriptor("s", None, Types.LONG())


@pytest.fixture
def harness() -> BackendHarness:
    """Return a harness of the hashmap backend."""
    return BackendHarness("hashmap")


def write(harness: BackendHarness, descriptor: StateDescriptor, number: int) -> None:
    state = harness.use("k", descriptor)
    if descriptor is NUMBERS:
        state.add(number)
    else:
        state.put(number, number)


def stored(harness: BackendHarness) -> Any:
    return table_of(harness).get("k", harness.codec.key_group("k", 16))


def table_of(harness: BackendHarness) -> table.StateTable:
    return dict(harness.backend._registered.declared())["s"].store.table  # type: ignore[attr-defined]


@pytest.mark.parametrize("descriptor", [NUMBERS, COUNTS])
def test_a_collection_is_changed_in_place_and_copied_once_per_open_snapshot(
    harness: BackendHarness, descriptor: StateDescriptor
) -> None:
    def step(number: int) -> Any:
        write(harness, descriptor, number)
        harness.flush()
        return stored(harness)

    first = step(0)
    assert step(1) is first
    snapshot = harness.backend.snapshot()
    copied = step(2)
    assert copied is not first
    assert len(first) == 2
    assert step(3) is copied
    other = harness.backend.snapshot()
    assert step(4) is not copied
    assert len(copied) == 4
    snapshot.release()
    other.release()
    merged = step(5)
    assert step(6) is merged
    assert not table_of(harness).layers
    assert len(merged) == 7


@pytest.mark.parametrize("descriptor", [NUMBERS, COUNTS])
def test_collections_in_melted_layers_belong_to_the_snapshots(harness: BackendHarness, descriptor: StateDescriptor) -> None:
    open_snapshots = []
    for number in range(4 * table.MAX_LAYERS):
        write(harness, descriptor, number)
        harness.flush()
        open_snapshots.append(harness.backend.snapshot())
        assert len(table_of(harness).layers) <= table.MAX_LAYERS + 1
    for _ in range(2):
        write(harness, descriptor, -1)
        harness.flush()
    for count, snapshot in enumerate(open_snapshots, 1):
        restored = harness.restored([written(snapshot)])
        assert sorted(restored.use("k", descriptor)) == list(range(count))


@pytest.mark.parametrize("descriptor", [NUMBERS, COUNTS])
@pytest.mark.parametrize("frozen", [False, True])
def test_an_emptied_collection_leaves_no_key_after(
    harness: BackendHarness, descriptor: StateDescriptor, frozen: bool
) -> None:
    for empty in ("clear", "one by one", "in place"):
        write(harness, descriptor, 1)
        harness.flush()
        assert len(table_of(harness)) == 1
        snapshots = harness.snapshot() if frozen else []
        state = harness.use("k", descriptor)
        if empty == "clear":
            state.clear()
        elif descriptor is COUNTS:
            state.remove(1)
        elif empty == "in place":
            state.get().clear()
        else:
            state.update([])
        harness.flush()
        assert len(table_of(harness)) == 0
        assert list(table_of(harness).keys()) == []
        for snapshot in snapshots:
            assert harness.restored([written(snapshot)]).entry_count() == 1
        harness.flush()
        assert len(table_of(harness)) == 0


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_values_are_written_and_restored_many_at_a_time(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)  # before there is a harness, which binds methods
    harness = BackendHarness(backend, Types.STRING())
    descriptor = ValueStateDescriptor("s", Types.LONG())
    keys = [f"key-{number}" for number in range(500)]
    for number, key in enumerate(keys):
        harness.use(key, descriptor).update(number)
    calls.clear()
    harness.flush()
    files = harness.save()
    assert calls["entry"] == 0
    restored = harness.restored(files, backend_name="hashmap")
    restored.use("key-0", descriptor)
    assert calls["entry"] <= 2 * MAX_PARALLELISM, "restored key groups look at their first entries"
    monkeypatch.undo()
    assert [restored.use(key, descriptor).value() for key in keys] == list(range(500))


def test_values_that_are_read_ahead_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)
    harness = BackendHarness("rocksdb", Types.STRING())
    descriptor = ValueStateDescriptor("s", Types.LONG())
    keys = [f"key-{number}" for number in range(TRIAL_KEYS)]
    for number, key in enumerate(keys):
        harness.use(key, descriptor).update(number)
    harness.flush()
    groups = [harness.codec.key_group(key, MAX_PARALLELISM) for key in keys]
    calls.clear()
    harness.backend.prefetch(keys, groups)
    assert [harness.use(key, descriptor).value() for key in keys] == list(range(TRIAL_KEYS))
    assert calls["entry"] == 0


def count_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is done for single keys and values of the types above."""
    calls: Counter[str] = Counter()

    def counted(original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls["entry"] += 1
            return original(*arguments)

        return call

    monkeypatch.setattr(_QuickSerializer, "serialize", counted(_QuickSerializer.serialize))
    monkeypatch.setattr(_QuickSerializer, "deserialize", counted(_QuickSerializer.deserialize))
    monkeypatch.setattr(_TextKeys, "encode", counted(_TextKeys.encode))
    monkeypatch.setattr(_TextKeys, "decode", counted(_TextKeys.decode))
    return calls
