"""Any sequence of accesses, flushes, rollbacks, snapshots and restores, against a plain dict."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pystate.common import Types
from pystate.state.base.backend import KeyedStateSnapshot
from pystate.state.base.loader import state_backend_names
from tests.state.conftest import BackendHarness, written

KEYS = st.sampled_from([0, 1, 2, 0.0, 1.0, True, "0", "a", ("a", 1), b"0", 2**70])
LIST, LONG = Types.LIST(Types.LONG()), Types.LONG()
EXAMPLES = {"hashmap": 150}  # the others open files for each
Model = dict[tuple[str, str], Any]


def name_of(key: Any) -> str:
    return f"{type(key).__name__} {key!r}"


class _ValueStateMachine(RuleBasedStateMachine):
    backend_name = ""

    def __init__(self) -> None:
        super().__init__()
        self.harness = BackendHarness(self.backend_name)
        self.flushed: Model = {}
        self.running: Model = {}
        self.open: list[tuple[list[KeyedStateSnapshot], Model]] = []
        self.kept: list[list[int]] = []

    @rule(key=KEYS, value=st.one_of(st.none(), st.integers(-5, 5)))
    def update_number(self, key: Any, value: int | None) -> None:
        self.harness.state(key, "n", LONG).update(value)
        self._set("n", key, value)

    @rule(key=KEYS, value=st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=2)))
    def update_list(self, key: Any, value: list[int] | None) -> None:
        self.harness.state(key, "l", LIST).update(value)
        self._set("l", key, copy.deepcopy(value))

    @rule(key=KEYS, name=st.sampled_from(["n", "l"]))
    def clear(self, key: Any, name: str) -> None:
        self.harness.state(key, name, LONG if name == "n" else LIST).clear()
        self._set(name, key, None)

    @rule(key=KEYS, then_update=st.booleans())
    def change_in_place(self, key: Any, then_update: bool) -> None:
        state = self.harness.state(key, "l", LIST)
        value = state.value()
        if value is not None:
            value.append(7)
            self.running["l", name_of(key)].append(7)
            self.kept.append(value)
            if then_update:
                state.update(value)

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        assert self.harness.state(key, "n", LONG).value() == self.running.get(("n", name_of(key)))
        value = self.harness.state(key, "l", LIST).value()
        assert value == self.running.get(("l", name_of(key)))
        if value is not None:
            self.kept.append(value)

    @rule()
    def flush(self) -> None:
        self.harness.flush()
        self.flushed = copy.deepcopy(self.running)
        self._spoil_kept_objects()

    @rule()
    def rollback(self) -> None:
        self.harness.rollback()
        self.running = copy.deepcopy(self.flushed)
        self._spoil_kept_objects()

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def take_snapshot(self) -> None:
        self.harness.state("a", "n", LONG), self.harness.state("a", "l", LIST)
        self.open.append((self.harness.snapshot(), copy.deepcopy(self.flushed)))

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 2))
    def abort_snapshot(self, which: int) -> None:
        for snapshot in self.open.pop(which % len(self.open))[0]:
            snapshot.release()

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 2), parallelism=st.sampled_from([1, 2, 3, 16]), go_on=st.booleans())
    def restore(self, which: int, parallelism: int, go_on: bool) -> None:
        snapshots, model = self.open.pop(which % len(self.open))
        restored = self.harness.restored([written(snapshot) for snapshot in snapshots], parallelism)
        assert sum(backend.entry_count() for backend in restored.backends) == len(model)
        if go_on:
            for others, _ in self.open:
                for snapshot in others:
                    snapshot.release()
            self.open.clear()
            self.harness = restored
            self.flushed, self.running = model, copy.deepcopy(model)
            self.kept.clear()

    @invariant()
    def the_backend_counts_what_was_flushed(self) -> None:
        assert sum(backend.entry_count() for backend in self.harness.backends) == len(self.flushed)

    def teardown(self) -> None:
        for snapshots, _ in self.open:
            for snapshot in snapshots:
                snapshot.release()

    def _set(self, name: str, key: Any, value: Any) -> None:
        if value is None:
            self.running.pop((name, name_of(key)), None)
        else:
            self.running[name, name_of(key)] = value

    def _spoil_kept_objects(self) -> None:
        for value in self.kept:
            value.append(-99)
        self.kept.clear()


for _name in state_backend_names():
    _machine: Any = type(f"{_name.title()}ValueStateMachine", (_ValueStateMachine,), {"backend_name": _name})
    _case = _machine.TestCase
    _case.settings = settings(max_examples=EXAMPLES.get(_name, 30), stateful_step_count=40, deadline=None)
    globals()[f"Test{_name.title()}ValueStateModel"] = _case
del _machine, _case  # else pytest runs the last one twice
