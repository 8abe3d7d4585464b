"""Value states that are written for the current key, for any key and for many at once, in one epoch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.core.api.state import ValueStateDescriptor
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, backends_to_test

KEYS = st.integers(0, 12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("clear"), KEYS, st.none()),
        st.tuples(st.just("hold"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("hold all"), st.lists(KEYS, unique=True), st.integers(0, 9)),
        st.tuples(st.just("come and go"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("read"), KEYS, st.none()),
        st.tuples(st.just("read all"), st.lists(KEYS, unique=True), st.none()),
        st.tuples(st.just("settle"), KEYS, st.none()),
        st.tuples(st.just("flush"), st.none(), st.none()),
        st.tuples(st.just("roll back"), st.none(), st.none()),
    ),
    max_size=40,
)


@pytest.mark.parametrize("backend_name", backends_to_test())
@pytest.mark.parametrize("value_type", [Types.LONG(), Types.LIST(Types.LONG())], ids=["immutable", "mutable"])
@settings(max_examples=30)
@given(steps=STEPS)
def test_each_key_has_what_was_written_last_in_its_own_key_group(backend_name, value_type, steps):
    harness = BackendHarness(backend_name, Types.LONG())
    descriptor = ValueStateDescriptor("s", value_type)
    value_of = (lambda number: number) if value_type == Types.LONG() else (lambda number: [number])
    group = {key: harness.codec.key_group(key, MAX_PARALLELISM) for key in range(13)}
    state = harness.use(0, descriptor)
    committed, running = {}, {}
    for step, key, number in [*steps, ("flush", None, None)]:
        if step == "update":
            harness.use(key, descriptor).update(value_of(number))
            running[key] = number
        elif step == "clear":
            harness.use(key, descriptor).clear()
            running.pop(key, None)
        elif step == "hold":
            state.hold(key, group[key], value_of(number))
            running[key] = number
        elif step == "hold all":
            state.hold_all(key, [group[one] for one in key], [value_of(number + one) for one in key])
            running.update({one: number + one for one in key})
        elif step == "come and go" and key not in committed and not state.holds(key):
            state.hold(key, group[key], value_of(number))
            state.let_go(key)
        elif step == "read":
            assert harness.use(key, descriptor).value() == (value_of(running[key]) if key in running else None)
        elif step == "read all":
            wanted = [value_of(running[one]) if one in running else None for one in key]
            assert state.read_all(key, [group[one] for one in key]) == wanted
        elif step == "settle":
            state.settle(key)
        elif step == "flush":
            harness.flush()
            committed = dict(running)
        elif step == "roll back":
            harness.rollback()
            running = dict(committed)
    restored = harness.restored(harness.save(), parallelism=2)
    for key in group:
        expected = value_of(committed[key]) if key in committed else None
        assert restored.use(key, descriptor).value() == expected
    assert restored.entry_count() == len(committed)
