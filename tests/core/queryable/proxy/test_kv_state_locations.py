"""Where states are, as attempts come and go."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateDeclarationError
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.queryable.kv_state_location import KvStateLocation
from pystate.core.queryable.kv_state_messages import QueryableState, QueryOutcome
from pystate.core.queryable.proxy.kv_state_locations import KvStateLocations
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.keys import KeyCodec

MAX_PARALLELISM = 128


def state(name: str = "counts", uid: str = "count", inner: str = "count") -> dict[str, Any]:
    info = StateSchema.of(ValueStateDescriptor(inner, Types.LONG())).meta_info(inner)
    return QueryableState(name, uid, Types.STRING(), MAX_PARALLELISM, info).to_plain()


def registered(locations: KvStateLocations, number: int, parallelism: int = 2) -> None:
    locations.begin_attempt(number, b"secret")
    for index in range(parallelism):
        locations.register(number, index, ("127.0.0.1", 9_067 + index), [(state(), parallelism)])


def test_a_state_is_somewhere_once_the_attempt_runs_and_nowhere_when_it_is_over() -> None:
    locations = KvStateLocations()
    assert locations.locate("counts") is QueryOutcome.NOT_SERVING
    registered(locations, 0)
    assert locations.locate("counts") is QueryOutcome.NOT_SERVING, "not all state is restored"
    locations.attempt_runs(0)
    found = locations.locate("counts")
    assert isinstance(found, KvStateLocation)
    assert found.addresses == (("127.0.0.1", 9_067), ("127.0.0.1", 9_068))
    assert locations.locate("other") is QueryOutcome.UNKNOWN_STATE
    locations.attempt_over()
    assert locations.locate("counts") is QueryOutcome.NOT_SERVING
    assert [known.name for known in locations.states()] == ["counts"]


def test_another_attempt_has_other_places_and_late_words_of_the_old_one_count_no_more() -> None:
    locations = KvStateLocations()
    registered(locations, 0)
    registered(locations, 1, parallelism=3)
    locations.register(0, 0, ("127.0.0.1", 1), [(state(), 2)])
    locations.attempt_runs(0)
    assert locations.locate("counts") is QueryOutcome.NOT_SERVING
    locations.attempt_runs(1)
    found = locations.locate("counts")
    assert isinstance(found, KvStateLocation)
    assert (found.attempt, len(found.addresses)) == (1, 3)


def test_a_key_is_in_the_subtask_that_its_key_group_says() -> None:
    locations, codec = KvStateLocations(), KeyCodec(Types.STRING())
    registered(locations, 0, parallelism=3)
    locations.attempt_runs(0)
    found = locations.locate("counts")
    assert isinstance(found, KvStateLocation)
    for number in range(50):
        key = codec.encode(f"key-{number}")
        assert found.subtask_of(key) == codec.key_group(f"key-{number}", MAX_PARALLELISM) * 3 // MAX_PARALLELISM


def test_a_slot_that_has_not_told_yet_is_waited_for() -> None:
    locations = KvStateLocations()
    locations.begin_attempt(0, b"secret")
    locations.register(0, 0, ("127.0.0.1", 1), [(state(), 2)])
    locations.attempt_runs(0)
    assert locations.locate("counts") is QueryOutcome.NOT_SERVING
    locations.register(0, 1, ("127.0.0.1", 2), [(state(), 2), (state("late", inner="late"), 2)])
    assert isinstance(locations.locate("counts"), KvStateLocation)
    locations.register(0, 0, ("127.0.0.1", 1), [(state("late", inner="late"), 2)])
    assert isinstance(locations.locate("late"), KvStateLocation)


def test_one_name_for_states_of_two_operators_is_an_error() -> None:
    locations = KvStateLocations()
    registered(locations, 0)
    with pytest.raises(StateDeclarationError, match="Two states are queryable as 'counts'"):
        locations.register(0, 0, ("127.0.0.1", 1), [(state(uid="another"), 2)])


def test_a_state_that_is_declared_late_is_waited_for_after_a_restart() -> None:
    locations = KvStateLocations()
    registered(locations, 0)
    locations.register(0, 0, ("127.0.0.1", 9_067), [(state("late", inner="late"), 2)])
    locations.attempt_over()
    locations.begin_attempt(1, b"secret", is_restored=True)
    for index in range(2):
        locations.register(1, index, ("127.0.0.1", 9_067 + index), [(state(), 2)])
    locations.attempt_runs(1)
    assert locations.locate("late") is QueryOutcome.NOT_SERVING, "the checkpoint has it; no slot has asked for it yet"
    assert locations.locate("other") is QueryOutcome.UNKNOWN_STATE
    locations.register(1, 1, ("127.0.0.1", 9_068), [(state("late", inner="late"), 2)])
    found = locations.locate("late")
    assert isinstance(found, KvStateLocation)
    assert found.is_restored
