"""The clean-up of expired values that nobody asks for."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.state.rocksdb import database
from tests.core.state.conftest import SPILLING, BackendHarness, ManualClock, written
from tests.core.state.contract.test_undeclared_state import DECLARATIONS, shown
from tests.core.state.contract.ttl_states import config_of, with_ttl

NUMBER = ValueStateDescriptor("number", Types.LONG())
OTHER = ValueStateDescriptor("other", Types.LONG())


class Cleaned:
    """A harness and a state that is cleaned up; nothing but the clean-up touches old entries."""

    def __init__(self, backend_name: str, descriptor: StateDescriptor, size: int, every_record: bool = False) -> None:
        self.clock = ManualClock(1_000)
        self.harness = BackendHarness(backend_name, clock=self.clock)
        self.state = with_ttl(descriptor, cleanup=(size, every_record))

    def use(self, key: Any) -> Any:
        return self.harness.use(key, self.state)

    def touch(self) -> None:
        """Access the state without a change, and end the epoch."""
        state = self.use("nobody")
        (getattr(state, "value", None) or getattr(state, "is_empty", None) or state.get)()
        self.harness.flush()

    def count(self) -> int:
        return self.harness.entry_count()


@pytest.mark.parametrize("name", list(DECLARATIONS))
def test_all_that_has_expired_goes_and_nothing_else(backend_name: str, name: str) -> None:
    plain, write = DECLARATIONS[name]
    cleaned = Cleaned(backend_name, plain, 4)
    for now, keys in ((1_000, range(30)), (1_005, range(20, 50))):
        cleaned.clock.now = now
        for key in keys:
            write(cleaned.use(key), key)
        cleaned.harness.flush()
    before = shown(cleaned.harness, cleaned.state)
    cleaned.clock.now = 1_010
    for _ in range(100):
        cleaned.touch()
    cleaned.clock.now = 1_009  # so that all that is there can be seen
    after = shown(cleaned.harness, cleaned.state)
    assert after.keys() == {repr(key) for key in range(20, 50)}
    assert {key: after[key] for key in map(repr, range(30, 50))} == {key: before[key] for key in map(repr, range(30, 50))}
    if name == "list":
        assert after["20"] == ["20"] * 3  # of two times three
    cleaned.clock.now = 1_015
    for _ in range(100):
        cleaned.touch()
    assert cleaned.count() == 0


def test_an_epoch_looks_at_so_many_entries(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, NUMBER, 10)
    for key in range(100):
        cleaned.use(key).update(1)
    cleaned.harness.flush()
    cleaned.clock.now = 1_010
    removed = []
    while cleaned.count():
        before = cleaned.count()
        cleaned.touch()
        removed.append(before - cleaned.count())
    assert removed == [10] * 10


def test_many_writes_look_at_many_entries(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, NUMBER, 2)
    for key in range(1_000):
        cleaned.use(key).update(1)
    cleaned.harness.flush()
    cleaned.clock.now = 1_010
    for key in range(2_000, 2_600):
        cleaned.use(key).update(1)
    cleaned.harness.flush()
    cleaned.touch()
    for key in range(3_000, 3_500):
        cleaned.use(key).update(1)
    cleaned.harness.flush()
    cleaned.touch()
    assert cleaned.count() == 1_100


def test_without_accesses_records_may_clean_up() -> None:
    for every_record in (False, True):
        cleaned = Cleaned("hashmap", NUMBER, 5, every_record)
        for key in range(20):
            cleaned.use(key).update(1)
        cleaned.harness.flush()
        cleaned.clock.now = 1_010
        cleaned.harness.backend.count_records(2)
        cleaned.harness.flush()
        assert cleaned.count() == (10 if every_record else 20)
        cleaned.harness.flush()
        assert cleaned.count() == (10 if every_record else 20)


def test_nothing_is_cleaned_up_where_that_is_switched_off(backend_name: str) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    state = with_ttl(NUMBER, config_of())
    for key in range(20):
        harness.use(key, state).update(1)
    harness.flush()
    clock.now = 5_000
    for _ in range(20):
        harness.use("nobody", state).value()
        harness.flush()
    assert harness.entry_count() == 20


def test_a_map_that_is_larger_than_the_budget_is_cleaned_up_in_parts(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, MapStateDescriptor("m", None, Types.LIST(Types.LONG())), 7)
    cleaned.use("k").put_all({key: [key] for key in range(50)})
    cleaned.clock.now = 1_005
    cleaned.use("k").put_all({key: [key] for key in range(0, 50, 5)})
    cleaned.harness.flush()
    cleaned.clock.now = 1_010
    counts = []
    for _ in range(12):
        cleaned.touch()
        counts.append(cleaned.count())
    assert counts[0] >= 43
    assert counts[-1] == 10
    assert dict(cleaned.use("k").items()) == {key: [key] for key in range(0, 50, 5)}


def test_parts_of_lists_lose_their_expired_elements(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, ListStateDescriptor("l", Types.LIST(Types.LONG())), 100)
    for now in (1_000, 1_002, 1_004):
        cleaned.clock.now = now
        cleaned.use("k").add([now])
        cleaned.use(f"only {now}").add_all([[1], [2]])
        cleaned.harness.flush()
    cleaned.clock.now = 1_012
    cleaned.touch()
    cleaned.clock.now = 1_004
    assert shown(cleaned.harness, cleaned.state) == {"'k'": [[1_004]], "'only 1004'": [[1], [2]]}


def test_an_open_snapshot_keeps_what_is_cleaned_up_after_it(backend_name: str) -> None:
    for name, (plain, write) in DECLARATIONS.items():
        cleaned = Cleaned(backend_name, plain, 1_000)
        for key in range(20):
            write(cleaned.use(key), key)
        cleaned.harness.flush()
        expected = shown(cleaned.harness, cleaned.state)
        (snapshot,) = cleaned.harness.snapshot()
        cleaned.clock.now = 1_005
        for key in range(10, 15):
            write(cleaned.use(key), key)
        cleaned.harness.flush()
        cleaned.clock.now = 1_010
        cleaned.touch()
        cleaned.touch()
        cleaned.clock.now = 1_005
        assert len(shown(cleaned.harness, cleaned.state)) == 5, name
        restored = cleaned.harness.restored([written(snapshot)])
        assert shown(restored, cleaned.state) == expected, name
        cleaned.clock.now = 1_015
        cleaned.touch()
        assert cleaned.count() == 0, name


def test_what_was_refreshed_in_the_same_epoch_stays(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, NUMBER, 1_000)
    for key in range(20):
        cleaned.use(key).update(key)
    cleaned.harness.flush()
    cleaned.clock.now = 1_010
    for key in range(0, 20, 2):
        cleaned.use(key).update(key + 100)
    cleaned.harness.flush()
    assert shown(cleaned.harness, cleaned.state) == {repr(key): key + 100 for key in range(0, 20, 2)}
    assert cleaned.count() == 10


def test_an_epoch_that_is_rolled_back_cleans_nothing_up(backend_name: str) -> None:
    cleaned = Cleaned(backend_name, NUMBER, 1_000)
    cleaned.use("k").update(1)
    cleaned.harness.flush()
    cleaned.clock.now = 1_010
    assert cleaned.use("k").value() is None
    cleaned.harness.rollback()
    assert cleaned.count() == 1


def test_keys_that_come_while_a_pass_is_under_way_are_found_in_the_next_one(backend_name: str) -> None:
    order = random.Random(5)
    cleaned = Cleaned(backend_name, NUMBER, 3)
    alive: dict[int, int] = {}
    for step in range(100 if backend_name == SPILLING else 300):  # a pass takes about ten; each spill makes a database
        cleaned.clock.now += 1
        for _ in range(order.randrange(3)):
            key = order.randrange(40)
            cleaned.use(key).update(step)
            alive[key] = cleaned.clock.now
        cleaned.touch()
        alive = {key: time for key, time in alive.items() if time + 10 > cleaned.clock.now}
        if step % 50 == 49:
            assert shown(cleaned.harness, cleaned.state).keys() == {repr(key) for key in alive}
    cleaned.clock.now += 10
    for _ in range(40):
        cleaned.touch()
    assert cleaned.count() == 0


def test_between_two_passes_nothing_is_looked_at_before_something_can_have_expired(
    backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = Cleaned(backend_name, NUMBER, 1_000)
    cleaned.use("k").update(1)
    cleaned.harness.flush()
    passes: list[int] = []
    (cleanup,) = cleaned.harness.backend._cleanups  # type: ignore[attr-defined]
    advance = cleanup._sweep._advance

    def counted(_: object, bound: Any, budget: int) -> bool:
        passes.append(cleaned.clock.now)
        return bool(advance(bound, budget))

    monkeypatch.setattr(type(cleanup._sweep), "_advance", counted)
    for now in range(1_001, 1_021):
        cleaned.clock.now = now
        cleaned.touch()
    assert passes == [1_010, 1_020]


def test_a_sweep_that_fails_stops_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned = Cleaned("rocksdb", NUMBER, 1_000)
    cleaned.use("k").update(1)

    def fail(*_: Any) -> Any:
        message = "RocksDB can't read: disk on fire"
        raise StateError(message)

    monkeypatch.setattr(database.Database, "scan_from", fail)
    cleaned.clock.now = 5_000
    with pytest.raises(StateError, match="disk on fire"):
        cleaned.harness.flush()
    with pytest.raises(StateError, match="disk on fire"):
        cleaned.harness.snapshot()
