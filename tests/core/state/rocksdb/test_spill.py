"""An epoch that outgrows its memory: where it waits, who sees it, and what is left of it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.state.base.backend_snapshot import NativeSource
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb import database
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from tests.core.state.conftest import BackendHarness, written

NUMBER = ValueStateDescriptor("number", Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
LISTS = ValueStateDescriptor("lists", Types.LIST(Types.LONG()))
COUNTS = MapStateDescriptor("counts", Types.LONG(), Types.LONG())
ALL = (NUMBER, NUMBERS, LISTS, COUNTS)
MAX_PARALLELISM = 16


class Spilling:
    """A backend whose epochs may take `bound` bytes, looked at when a test says so."""

    def __init__(self, folder: Path, bound: int = 1) -> None:
        self.folder = folder
        self.backend = RocksDBKeyedStateBackend(
            key_codec=KeyCodec(),
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=str(folder),
            configuration=Configuration({PystateOptions.STATE_EPOCH_MEMORY.key: f"{bound} b"}),
        )

    def use(self, key: Any, descriptor: StateDescriptor) -> Any:
        codec = self.backend.key_codec
        internal = codec.internal(key)
        self.backend.set_current_key(internal, codec.key_group(internal, MAX_PARALLELISM))
        return self.backend.get_partitioned_state(descriptor)

    def write(self, key: Any, number: int) -> None:
        self.use(key, NUMBER).update(number)
        self.use(key, NUMBERS).add(number)
        self.use(key, LISTS).update([number])
        self.use(key, COUNTS).put(number, number)

    def read(self, key: Any) -> tuple[Any, ...]:
        entries = dict(self.use(key, COUNTS).items())
        return self.use(key, NUMBER).value(), self.use(key, NUMBERS).get(), self.use(key, LISTS).value(), entries

    def spill(self) -> None:
        self.backend.limit_epoch(1, 1)

    @property
    def held(self) -> int:
        """The bytes that the running epoch takes in memory."""
        return sum(overlay.held_bytes() for overlay in self.backend._overlays.values())


@pytest.fixture
def spilling(tmp_path: Path) -> Iterator[Spilling]:
    """Return a backend whose epochs go to disk when asked; it leaves nothing behind."""
    spilling = Spilling(tmp_path)
    yield spilling
    spilling.backend.close()
    assert os.listdir(tmp_path) == []


def restored(data: bytes) -> BackendHarness:
    harness = BackendHarness("hashmap")
    harness.backend.restore([io.BytesIO(data)])
    return harness


def test_what_was_spilled_is_read_back_and_is_no_state_before_the_epoch_ends(spilling: Spilling) -> None:
    spilling.write("a", 1)
    spilling.spill()
    assert spilling.backend.has_spilled
    assert spilling.read("a") == (1, [1], [1], {1: 1})
    assert spilling.backend.entry_count() == 0
    for descriptor in ALL:
        visited: list[str] = []
        spilling.backend.apply_to_all_keys(descriptor, lambda key, _, visited=visited: visited.append(key))  # type: ignore[misc]
        assert visited == ["a"]
    spilling.write("a", 2)
    spilling.spill()
    assert spilling.read("a") == (2, [1, 2], [2], {1: 1, 2: 2})
    spilling.backend.flush_epoch()
    assert spilling.backend.entry_count() == 1 + 2 + 1 + 2
    assert spilling.read("a") == (2, [1, 2], [2], {1: 1, 2: 2})


def test_a_rollback_drops_what_was_spilled_however_often(spilling: Spilling) -> None:
    spilling.write("a", 1)
    spilling.backend.flush_epoch()
    for number in (2, 3):
        spilling.write("a", number)
        spilling.write("b", number)
        spilling.spill()
        spilling.use("a", COUNTS).clear()
        spilling.use("a", NUMBERS).clear()
        spilling.spill()
        assert spilling.read("a") == (number, [], [number], {})
        spilling.backend.rollback_epoch()
        assert spilling.read("a") == (1, [1], [1], {1: 1})
        assert spilling.read("b") == (None, [], None, {})
    spilling.backend.flush_epoch()
    assert spilling.backend.entry_count() == 4


def test_what_was_cleared_and_written_again_on_disk_replaces_all_that_was_there(spilling: Spilling) -> None:
    for number in range(5):
        spilling.write("a", number)
        spilling.backend.flush_epoch()
    spilling.use("a", COUNTS).clear()
    spilling.use("a", NUMBERS).update([7])
    spilling.use("a", NUMBER).clear()
    spilling.spill()
    spilling.use("a", COUNTS).put(9, 9)
    spilling.use("a", NUMBERS).add(8)
    spilling.spill()
    expected = (None, [7, 8], [4], {9: 9})
    assert spilling.read("a") == expected
    assert 3 not in spilling.use("a", COUNTS)
    spilling.backend.flush_epoch()
    assert spilling.read("a") == expected


def test_snapshots_taken_meanwhile_are_of_the_last_finished_epoch(spilling: Spilling) -> None:
    spilling.write("a", 1)
    spilling.backend.flush_epoch()
    spilling.write("a", 2)
    spilling.write("b", 2)
    spilling.spill()
    native = spilling.backend.snapshot_native()
    canonical = restored(written(spilling.backend.snapshot()))
    assert [canonical.use(key, NUMBER).value() for key in ("a", "b")] == [1, None]
    meta = io.BytesIO()
    native.write_meta(meta)
    meta.seek(0)
    other = Spilling(spilling.folder)
    folder = os.path.join(spilling.folder, "copy")
    os.rename(os.path.dirname(next(iter(native.private_files.values()))), folder)
    other.backend.restore_native([NativeSource(folder, meta, "here", KeyGroupRange(0, MAX_PARALLELISM - 1))])
    assert other.read("a") == (1, [1], [1], {1: 1})
    assert other.read("b") == (None, [], None, {})
    other.backend.close()
    spilling.backend.flush_epoch()
    assert spilling.read("a") == (2, [1, 2], [2], {1: 1, 2: 2})


def test_a_spill_that_failed_is_never_half_of_an_epoch(spilling: Spilling, monkeypatch: pytest.MonkeyPatch) -> None:
    spilling.use("a", NUMBERS).add(1)
    spilling.backend.flush_epoch()

    def full(self: database.Database) -> None:
        message = "No space left on device"
        raise StateError(message)

    for number in (2, 3):
        spilling.use("a", NUMBERS).add(number)
        with monkeypatch.context() as patched:
            patched.setattr(database.Database, "end_write", full)
            with pytest.raises(StateError, match="No space left"):
                spilling.spill()
        with pytest.raises(StateError, match="No space left"):  # whoever caught the error can't go on
            spilling.backend.flush_epoch()
        spilling.backend.rollback_epoch()
        assert spilling.use("a", NUMBERS).get() == [1]
    spilling.use("a", NUMBERS).add(4)
    spilling.spill()
    spilling.backend.flush_epoch()
    assert spilling.use("a", NUMBERS).get() == [1, 4]


def test_a_value_of_the_wrong_type_is_refused_when_it_is_spilled_and_a_rollback_heals_it(spilling: Spilling) -> None:
    spilling.write("a", 1)
    spilling.backend.flush_epoch()
    spilling.write("b", 2)
    spilling.use("a", LISTS).value().append("x")
    with pytest.raises(StateError, match="key 'a' can't be kept"):
        spilling.spill()
    with pytest.raises(StateError, match="key 'a' can't be kept"):
        spilling.backend.flush_epoch()
    spilling.backend.rollback_epoch()
    assert spilling.read("a") == (1, [1], [1], {1: 1})
    assert spilling.read("b") == (None, [], None, {})


@pytest.mark.parametrize("descriptor", ALL, ids=lambda one: one.name)
def test_an_epoch_stays_within_its_memory(tmp_path: Path, descriptor: StateDescriptor) -> None:
    bound, keys, batch = 256 << 10, 12_000, 200
    spilling = Spilling(tmp_path, bound)
    most = 0
    for start in range(0, keys, batch):
        for number in range(start, start + batch):
            state = spilling.use(number, descriptor)
            if descriptor is COUNTS:
                state.put(number, number)
            elif descriptor is NUMBERS:
                state.add(number)
            else:
                state.update([number] * 5 if descriptor is LISTS else number)
        most = max(most, spilling.held)
        spilling.backend.limit_epoch(batch, 10 * batch)
    assert bound / 2 < most < 2 * bound
    spilling.backend.flush_epoch()
    assert spilling.backend.entry_count() == keys
    spilling.backend.close()


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("descriptor", ALL, ids=lambda one: one.name)
def test_visiting_all_keys_stays_within_the_memory_of_an_epoch(
    tmp_path: Path, descriptor: StateDescriptor, writes: bool
) -> None:
    keys, bound = 4_000, 256 << 10
    spilling = Spilling(tmp_path, bound)
    for number in range(keys):
        spilling.write(number, number)
    spilling.backend.flush_epoch()
    for number in range(keys, keys + 10):
        spilling.write(number, number)  # in the overlay
    held: list[int] = []
    visited: list[int] = []

    def visit(key: int, state: Any) -> None:
        visited.append(key)
        if len(visited) % 100 == 0:
            held.append(spilling.held)
        if descriptor is COUNTS:
            assert dict(state.items()) == {key: key}
            if writes:
                state.put(-1, key)
        elif descriptor is NUMBERS:
            assert state.get() == [key]
            if writes:
                state.add(-1)
        else:
            assert state.value() == (key if descriptor is NUMBER else [key])
            if writes:
                state.update(-key if descriptor is NUMBER else [-key])

    spilling.backend.apply_to_all_keys(descriptor, visit)
    assert sorted(visited) == list(range(keys + 10))
    assert max(held) < (4 * bound if writes else 64 << 10)  # a thousand visits lie between two looks
    assert spilling.backend.has_spilled == writes
    spilling.backend.flush_epoch()
    state = spilling.use(5, descriptor)
    found = dict(state.items()) if descriptor is COUNTS else state.get() if descriptor is NUMBERS else state.value()
    written_values = {NUMBER: -5, NUMBERS: [5, -1], LISTS: [-5], COUNTS: {5: 5, -1: 5}}
    assert found == (written_values if writes else {NUMBER: 5, NUMBERS: [5], LISTS: [5], COUNTS: {5: 5}})[descriptor]
    spilling.backend.close()


def test_a_visit_in_a_visit_cuts_nothing_off(spilling: Spilling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pystate.core.state.base.abstract_backend.VISITS_PER_LOOK", 1)
    for key in ("a", "b"):
        spilling.write(key, 1)
    spilling.backend.flush_epoch()

    def outer(key: str, state: Any) -> None:
        value = state.value()
        spilling.backend.apply_to_all_keys(LISTS, lambda _, inner: inner.value())
        value.append(2)

    spilling.backend.apply_to_all_keys(LISTS, outer)
    spilling.backend.flush_epoch()
    assert [spilling.use(key, LISTS).value() for key in ("a", "b")] == [[1, 2], [1, 2]]
