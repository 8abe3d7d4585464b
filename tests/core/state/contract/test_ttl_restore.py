"""Restores of state with a time to live: switched on, off, changed, rescaled, on another backend, with another schema."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

from pystate.common import Row, Types
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.core.api.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.state.base.loader import state_backend_names
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.ttl.ttl_serializer import time_of_mark, without_time
from tests.core.state.conftest import BackendHarness, ManualClock, stored
from tests.core.state.contract.test_undeclared_state import DECLARATIONS, KEYS, content, shown
from tests.core.state.contract.ttl_states import with_ttl

OLD, NEW = KEYS[:10], KEYS[10:20]


def written_in_two_steps(backend_name: str, clock: ManualClock, timed: bool, parallelism: int) -> BackendHarness:
    """Return a harness in which half of the keys were written at 1,000, the others at 1,005."""
    harness = BackendHarness(backend_name, parallelism=parallelism, clock=clock)
    for now, keys in ((1_000, OLD), (1_005, NEW)):
        clock.now = now
        for plain, write in DECLARATIONS.values():
            for position, key in enumerate(keys):
                write(harness.use(key, with_ttl(plain) if timed else plain), position)
        harness.flush()
    return harness


def reprs(keys: list[Any]) -> set[str]:
    return {repr(key) for key in keys}


@pytest.mark.parametrize("target", state_backend_names())
@pytest.mark.parametrize(
    ("parallelism", "before", "after"),
    [(2, True, True), (3, True, True), (1, True, True), (3, True, False), (1, False, True), (2, False, False)],
)
def test_every_state_on_every_backend_at_every_parallelism(
    backend_name: str, target: str, parallelism: int, before: bool, after: bool
) -> None:
    clock = ManualClock()
    harness = written_in_two_steps(backend_name, clock, before, 2)
    plains = {name: plain for name, (plain, _) in DECLARATIONS.items()}

    def visible(source: BackendHarness, timed: bool) -> dict[str, dict[str, Any]]:
        return {name: shown(source, with_ttl(plain) if timed else plain) for name, plain in plains.items()}

    def keys(source: BackendHarness) -> dict[str, set[str]]:
        return {name: set(found) for name, found in visible(source, after).items()}

    expected = visible(harness, before)
    old, new = reprs(OLD), reprs(NEW)
    assert {name: set(found) for name, found in expected.items()} == dict.fromkeys(plains, old | new)
    files = harness.save()
    clock.now = 1_010
    restored = harness.restored(files, parallelism, target)
    if before and after:
        expected = {name: {key: found[key] for key in new} for name, found in expected.items()}
    assert visible(restored, after) == expected
    assert visible(restored.restored(restored.save(), 2, backend_name), after) == expected
    clock.now = 1_015  # what had no time when it was restored has that of the restore
    assert keys(restored) == dict.fromkeys(plains, set() if before and after else old | new)
    clock.now = 1_020
    assert keys(restored) == dict.fromkeys(plains, set() if after else old | new)


@pytest.mark.parametrize("name", list(DECLARATIONS))
def test_another_time_to_live_counts_for_old_values(backend_name: str, name: str) -> None:
    clock = ManualClock()
    files = written_in_two_steps(backend_name, clock, timed=True, parallelism=1).save()
    clock.now = 1_012
    for millis, keys in ((5, []), (10, NEW), (100, OLD + NEW)):
        restored = BackendHarness(backend_name, clock=clock).restored(files)
        assert shown(restored, with_ttl(DECLARATIONS[name][0], millis=millis)).keys() == reprs(keys)


@pytest.mark.parametrize("target", state_backend_names())
def test_undeclared_states_keep_their_times(backend_name: str, target: str) -> None:
    clock = ManualClock()
    harness = written_in_two_steps(backend_name, clock, timed=True, parallelism=2)
    files = harness.save()
    assert all(info.ttl for info, _ in content(files).values())
    clock.now = 9_000
    restored = harness.restored(files, 3, target)
    for key in KEYS:
        restored.use(key, with_ttl(ValueStateDescriptor("other"), cleanup=(1_000, True))).update(1)
    restored.flush()
    late = content(restored.save())
    assert {name: late[name] for name in DECLARATIONS} == content(files)


def test_the_times_are_in_the_file(backend_name: str) -> None:
    clock = ManualClock()
    (file,) = written_in_two_steps(backend_name, clock, timed=True, parallelism=1).save()
    for info, entries in content([file]).values():
        if info.kind != "LIST":
            assert {time_of_mark(entry[2]) for _, entry in entries} == {1_000, 1_005}
    reader = CanonicalReader(io.BytesIO(file))
    codec = BackendHarness(backend_name).codec
    for info in reader.header.states:
        groups = reader.key_groups()
        found = [pair for group in groups for pair in stored(reader, info, codec, group)]
        assert reprs([key for key, _ in found]) == reprs(OLD + NEW)
        if info.name == "value":
            assert sorted(value for _, value in found) == sorted([*range(10), *range(10)])


ROW = Types.ROW_NAMED(["a"], [Types.INT()])
WIDER = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
EVOLVED: list[tuple[StateDescriptor, StateDescriptor]] = [
    (ValueStateDescriptor("s", ROW), ValueStateDescriptor("s", WIDER)),
    (ListStateDescriptor("s", ROW), ListStateDescriptor("s", WIDER)),
    (MapStateDescriptor("s", Types.STRING(), ROW), MapStateDescriptor("s", Types.STRING(), WIDER)),
]


@pytest.mark.parametrize("target", state_backend_names())
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize(("old", "new"), EVOLVED, ids=lambda descriptor: descriptor.kind.value)
def test_the_schema_may_change_at_the_same_time(
    backend_name: str, target: str, old: StateDescriptor, new: StateDescriptor, before: bool, after: bool
) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    old, new = (with_ttl(old) if before else old), (with_ttl(new) if after else new)
    state = harness.use("k", old)
    if isinstance(old, MapStateDescriptor):
        state.put_all({"x": Row(a=1), "none": None})
    else:
        (state.add if isinstance(old, ListStateDescriptor) else state.update)(Row(a=1))
    harness.flush()
    clock.now = 1_006
    restored = harness.restored(harness.save(), backend_name=target)
    state = restored.use("k", new)
    row = Row(a=1, b=None)
    if isinstance(new, MapStateDescriptor):
        assert dict(state.items()) == {"x": row, "none": None}
    else:
        assert (state.get() == [row]) if isinstance(new, ListStateDescriptor) else (state.value() == row)
    restored.flush()
    for now in (1_010, 1_016):
        clock.now = now
        alive = not after or now < (1_010 if before else 1_016)
        assert shown(restored, new).keys() == ({"'k'"} if alive else set())


def test_a_type_that_does_not_fit_is_refused_with_a_time_to_live_too(backend_name: str) -> None:
    harness = BackendHarness(backend_name, clock=ManualClock())
    harness.use("k", with_ttl(ValueStateDescriptor("s", Types.STRING()))).update("a")
    harness.flush()
    files = harness.save()
    for timed in (True, False):
        new = ValueStateDescriptor("s", Types.LONG())
        with pytest.raises(RestoreError, match="State 's' was written as VALUE of STRING"):
            harness.restored(files).use("k", with_ttl(new) if timed else new)


@pytest.mark.parametrize("data", [b"", b"1234567", b"12345678"])
def test_a_value_without_a_whole_timestamp_is_damaged(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError, match="damaged"):
        without_time(data)


@pytest.mark.parametrize("name", list(DECLARATIONS))
def test_full_snapshots_leave_expired_values_out_if_told_to(backend_name: str, name: str) -> None:
    plain, write = DECLARATIONS[name]
    for prunes in (False, True):
        clock = ManualClock()
        harness = BackendHarness(backend_name, clock=clock)
        declared = with_ttl(plain, full_snapshot=prunes)
        for key in OLD:
            write(harness.use(key, declared), 1)
        clock.now = 1_005
        for key in NEW:
            write(harness.use(key, declared), 2)
        write(harness.use(OLD[0], declared), 3)
        harness.flush()
        clock.now = 1_010
        (snapshot,) = harness.snapshot()
        clock.now = 1_100  # what counts is when the snapshot was taken
        sink = io.BytesIO()
        snapshot.write_canonical(sink)
        snapshot.release()
        restored = harness.restored([sink.getvalue()])
        found = shown(restored, copy.copy(plain)).keys()
        assert found == reprs([*NEW, OLD[0]] if prunes else OLD + NEW)
        if name == "list":
            elements = restored.use(OLD[0], plain).get()
            assert elements == (["3"] if prunes else ["1", "1", "3"])
