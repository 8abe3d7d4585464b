"""Any sequence of accesses to states of each kind, of epochs, snapshots and restores, against plain dicts.

With namespaces the three keys of an example stand for three addresses, of one key or of two.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from pystate.common import Types
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.api.state_ttl import StateTtlConfig
from pystate.core.state.base import abstract_backend
from pystate.core.state.keys.namespaces import TIME_WINDOWS, VOID, KeyNamespaceSerializer, NamespaceSerializer
from pystate.core.state.kinds.internal_state import InternalKvState, InternalMergingState
from pystate.core.state.rocksdb import list_table
from tests.core.state.conftest import SPILLING, BackendHarness, backends_to_test
from tests.core.state.contract.epoch_machine import EpochMachine
from tests.core.state.contract.ttl_states import config_of, with_ttl
from tests.hypothesis_profiles import of_model

LONGS = Types.LIST(Types.LONG())
ENDLESS = config_of(10**12, on_read=True, cleanup=(3, True))  # all must be as if there were no time to live
EXAMPLES = {"hashmap": 20}  # the others, 10: they open files for each
Model = dict[str, Any]


class Collect(AggregateFunction):
    """Keeps the last three elements, in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        del accumulator[:-3]
        return accumulator

    def get_result(self, accumulator: list[int]) -> str:
        return str(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return (acc_a + acc_b)[-3:]


DESCRIPTORS: dict[str, StateDescriptor] = {
    "number": ValueStateDescriptor("number", Types.LONG()),
    "list": ValueStateDescriptor("list", LONGS),
    "numbers": ListStateDescriptor("numbers", Types.LONG()),
    "lists": ListStateDescriptor("lists", LONGS),
    "counts": MapStateDescriptor("counts", None, Types.LONG()),
    "map of lists": MapStateDescriptor("map of lists", Types.STRING(), LONGS),
    "sum": ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()),
    "last": AggregatingStateDescriptor("last", Collect(), LONGS),
}
THREE = [1, True, ("a", 1)]
KEYS = st.sampled_from(THREE)
NUMBERS = st.integers(-5, 5)
USER_KEYS = {
    "counts": st.sampled_from([1, 1.0, True, "a", [1]]),
    "map of lists": st.sampled_from(["", "a", "b"]),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "number": st.none() | NUMBERS,
    "list": st.none() | st.lists(NUMBERS, max_size=2),
    "numbers": NUMBERS,
    "lists": st.lists(NUMBERS, max_size=2),
    "counts": st.none() | NUMBERS,
    "map of lists": st.none() | st.lists(NUMBERS, max_size=2),
}


def name_of(key: Any) -> str:
    return f"{type(key).__name__} {key!r}"


class Places(NamedTuple):
    """Where the state of the three keys is.

    Attributes:
        namespaces: Of which type.
        addresses: The (key, namespace) of each of them.
    """

    namespaces: NamespaceSerializer
    addresses: list[tuple[Any, Any]]


VOIDS = Places(VOID, [(key, None) for key in THREE])
WINDOWS = Places(TIME_WINDOWS, [("k", (0, 10)), ("k", (-5, 5)), ("k", (5, 15))])
TEXTS = Places(KeyNamespaceSerializer(None), [("k", ""), (7, ""), ("k", "a")])


class _StatesMachine(EpochMachine):
    """What all states share. Each example is about one state and three keys, so that accesses meet."""

    places = VOIDS
    names: tuple[str, ...] = ()
    ttl: StateTtlConfig | None = None

    def __init__(self) -> None:
        super().__init__({})
        self.kept: list[list[Any]] = []
        self.iterations: list[Any] = []
        self.max_rows, list_table.MAX_ROWS = list_table.MAX_ROWS, 3  # so that lists are rewritten at once
        self.visits, abstract_backend.VISITS_PER_LOOK = (
            abstract_backend.VISITS_PER_LOOK,
            1 if self.backend_name == SPILLING else 1_000,
        )

    @initialize(index=st.integers(0, 1))
    def choose(self, index: int) -> None:
        self.name = self.names[index % len(self.names)]

    def descriptor(self) -> StateDescriptor:
        plain = DESCRIPTORS[self.name]
        return with_ttl(plain, self.ttl) if self.ttl else plain

    def handle(self, harness: BackendHarness, key: Any) -> InternalKvState:
        number = next(number for number, one in enumerate(THREE) if one is key or (one == key and type(one) is type(key)))
        real_key, namespace = self.places.addresses[number]
        handle = harness.at(real_key).get_or_create_keyed_state(self.descriptor(), self.places.namespaces)
        handle.set_current_namespace(namespace)
        return handle

    def state(self, key: Any) -> Any:
        return self.handle(self.harness, key).state

    def visit_all(self, harness: BackendHarness, visit: Callable[[Any, Any], None]) -> None:
        """Call a function for each of the three keys that has a value, with the state there."""
        if self.places is VOIDS:
            for backend in harness.backends:
                backend.apply_to_all_keys(self.descriptor(), visit)
            return
        addresses = [(name_of(key), namespace) for key, namespace in self.places.addresses]
        found = []
        for backend in harness.backends:
            backend.get_or_create_keyed_state(self.descriptor(), self.places.namespaces)
            found += list(backend.get_keys_and_namespaces(self.name))
        assert sorted(found, key=repr) == sorted(
            [
                (key, namespace)
                for key, namespace in set(self.places.addresses)
                for backend in harness.backends
                if any(name_of(key) == name_of(one) for one in backend.get_keys(self.name, namespace))
            ],
            key=repr,
        )
        for key, namespace in found:
            three = THREE[addresses.index((name_of(key), namespace))]
            visit(three, self.handle(harness, three).state)

    def change(self, key: Any, empty: Any, how: Callable[[Any], object]) -> None:
        """Change the model's list or map of a key; what is empty isn't there."""
        value = self.running.setdefault(name_of(key), empty)
        how(value)
        if not value:
            del self.running[name_of(key)]

    @rule(key=KEYS)
    def clear(self, key: Any) -> None:
        self.state(key).clear()
        self.running.pop(name_of(key), None)

    @rule(clear=st.booleans())
    def apply_to_all_keys(self, clear: bool) -> None:
        visited: list[str] = []

        def visit(key: Any, state: Any) -> None:
            visited.append(name_of(key))
            if clear and len(visited) % 2:
                state.clear()
                del self.running[name_of(key)]

        expected = sorted(self.running)
        self.visit_all(self.harness, visit)
        assert sorted(visited) == expected

    def moved(self, into: Any, sources: list[Any]) -> list[Any]:
        """Merge namespaces of the key of one address into its own; return what was there, its own first."""
        where = {name_of(one): address for one, address in zip(THREE, self.places.addresses, strict=True)}
        key, target = where[name_of(into)]
        mine = [name_of(one) for one in sources if where[name_of(one)][0] == key]
        handle = self.handle(self.harness, into)
        assert isinstance(handle, InternalMergingState)
        handle.merge_namespaces(target, [where[name][1] for name in mine])
        ordered = [name_of(into), *(name for name in dict.fromkeys(mine) if name != name_of(into))]
        parts = [self.running.get(name) for name in ordered]
        for name in ordered[1:]:
            self.running.pop(name, None)
        return [part for part in parts if part is not None]

    @precondition(lambda self: len(self.open) == 3)
    @rule(which=st.integers(0, 2))
    def abort_snapshot(self, which: int) -> None:
        for snapshot in self.open.pop(which % len(self.open))[0]:
            snapshot.release()

    def teardown(self) -> None:
        list_table.MAX_ROWS, abstract_backend.VISITS_PER_LOOK = self.max_rows, self.visits
        super().teardown()

    def go_on(self) -> None:
        self.kept.clear()
        self.iterations.clear()

    def compare(self, harness: BackendHarness, model: Model) -> None:
        found: Model = {}

        def keep(key: Any, state: Any) -> None:
            if self.name in USER_KEYS:
                found[name_of(key)] = {name_of(user_key): (user_key, value) for user_key, value in state.items()}
            else:
                found[name_of(key)] = state.value() if self.name in ("number", "list") else state.get()

        self.visit_all(harness, keep)
        assert found == {key: str(value) if self.name == "last" else value for key, value in model.items()}

    def end_epoch(self) -> None:
        for value in self.kept:
            value.append(-99)
        self.kept.clear()
        for iteration in self.iterations:
            if iteration.gi_frame is not None:
                with pytest.raises(Exception, match="after its epoch had ended"):
                    next(iteration)
        self.iterations.clear()


class _Values(_StatesMachine):
    names = ("number", "list")

    @rule(key=KEYS, data=st.data())
    def update(self, key: Any, data: st.DataObject) -> None:
        value = data.draw(VALUES[self.name])
        self.state(key).update(value)
        if value is None:
            self.running.pop(name_of(key), None)
        else:
            self.running[name_of(key)] = copy.copy(value)

    @rule(key=KEYS, change=st.booleans(), then_update=st.booleans())
    def read(self, key: Any, change: bool, then_update: bool) -> None:
        state = self.state(key)
        value = state.value()
        assert value == self.running.get(name_of(key))
        if isinstance(value, list):
            self.kept.append(value)
            if change:
                value.append(7)
                self.running[name_of(key)].append(7)
                if then_update:
                    state.update(value)

    @invariant()
    def the_backend_counts_what_was_flushed(self) -> None:
        assert self.harness.entry_count() == len(self.flushed)


class _Lists(_StatesMachine):
    names = ("numbers", "lists")

    @rule(key=KEYS, data=st.data())
    def add(self, key: Any, data: st.DataObject) -> None:
        element = data.draw(VALUES[self.name])
        self.change(key, [], lambda elements: elements.append(copy.copy(element)))
        self.state(key).add(element)

    @rule(key=KEYS, data=st.data(), replace=st.booleans())
    def add_all_or_update(self, key: Any, data: st.DataObject, replace: bool) -> None:
        added = data.draw(st.lists(VALUES[self.name], max_size=3))
        state = self.state(key)
        (state.update if replace else state.add_all)(added)
        mine = copy.deepcopy(added)
        self.change(key, [], lambda elements: elements.__setitem__(slice(0 if replace else len(elements), None), mine))
        self.kept.append(added)

    @rule(key=KEYS)
    def read_list(self, key: Any) -> None:
        elements = self.state(key).get()
        assert elements == self.running.get(name_of(key), [])
        assert list(self.state(key)) == elements
        self.kept.append(elements)

    @rule(key=KEYS, change=st.sampled_from(["append", "pop", "in element", "reverse", "clear"]))
    def change_list_in_place(self, key: Any, change: str) -> None:
        handed = self.state(key).get()
        if change == "in element" and (self.name == "numbers" or not handed):
            return

        def apply(elements: list[Any]) -> None:
            if change == "append":
                elements.append(7 if self.name == "numbers" else [7])
            elif change == "in element":
                elements[0].append(8)
            elif change == "reverse":
                elements.reverse()
            elif change == "clear":
                elements.clear()
            elif elements:
                elements.pop()

        apply(handed)
        self.change(key, [], apply)
        self.kept.append(handed)

    @precondition(lambda self: self.places is not VOIDS)
    @rule(into=KEYS, sources=st.lists(KEYS, max_size=3))
    def merge(self, into: Any, sources: list[Any]) -> None:
        parts = self.moved(into, sources)
        if parts:
            self.running[name_of(into)] = [element for part in parts for element in part]


class _Maps(_StatesMachine):
    names = ("counts", "map of lists")

    @rule(key=KEYS, data=st.data())
    def put(self, key: Any, data: st.DataObject) -> None:
        user_key, value = data.draw(USER_KEYS[self.name]), data.draw(VALUES[self.name])
        self.state(key)[user_key] = value
        self.change(key, {}, lambda entries: entries.__setitem__(name_of(user_key), (user_key, copy.copy(value))))

    @rule(key=KEYS, data=st.data())
    def remove(self, key: Any, data: st.DataObject) -> None:
        user_key = data.draw(USER_KEYS[self.name])
        del self.state(key)[user_key]
        self.change(key, {}, lambda entries: entries.pop(name_of(user_key), None))

    @rule(key=KEYS, data=st.data(), change=st.booleans())
    def get(self, key: Any, data: st.DataObject, change: bool) -> None:
        user_key = data.draw(USER_KEYS[self.name])
        state, entries = self.state(key), self.running.get(name_of(key), {})
        expected = entries.get(name_of(user_key))
        assert (user_key in state) == (expected is not None)
        value = state[user_key]
        assert value == (None if expected is None else expected[1])
        if isinstance(value, list):
            if change:
                value.append(9)
                expected[1].append(9)
            self.kept.append(value)

    @rule(key=KEYS, data=st.data())
    def iterate_while_writing(self, key: Any, data: st.DataObject) -> None:
        state = self.state(key)
        before = copy.deepcopy(self.running.get(name_of(key), {}))
        assert state.is_empty() == (not before)
        seen: dict[str, Any] = {}
        for user_key, value in state.items():
            assert name_of(user_key) not in seen
            seen[name_of(user_key)] = (user_key, copy.copy(value))
            what = data.draw(st.sampled_from(["nothing", "put", "remove", "clear"]))
            if what == "put":
                self.put(key, data)
            elif what == "remove":
                self.remove(key, data)
            elif what == "clear":
                self.clear(key)
        assert seen == before
        assert {name_of(k) for k in state} == self.running.get(name_of(key), {}).keys()
        values = [value for _, value in self.running.get(name_of(key), {}).values()]
        assert sorted(map(repr, state.values())) == sorted(map(repr, values))

    @rule(key=KEYS)
    def begin_an_iteration(self, key: Any) -> None:
        iteration = self.state(key).items()
        next(iteration, None)
        self.iterations.append(iteration)


class _Reduced(_StatesMachine):
    names = ("sum", "last")

    @rule(key=KEYS, number=NUMBERS)
    def add(self, key: Any, number: int) -> None:
        self.state(key).add(number)
        old = self.running.get(name_of(key))
        if self.name == "sum":
            self.running[name_of(key)] = number if old is None else old + number
        else:
            self.running[name_of(key)] = [*(old or []), number][-3:]

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        expected = self.running.get(name_of(key))
        shown = str(expected) if self.name == "last" and expected is not None else expected
        assert self.state(key).get() == shown

    @precondition(lambda self: self.places is not VOIDS)
    @rule(into=KEYS, sources=st.lists(KEYS, max_size=3))
    def merge(self, into: Any, sources: list[Any]) -> None:
        parts = self.moved(into, sources)
        if parts and self.name == "sum":
            self.running[name_of(into)] = sum(parts)
        elif parts:
            self.running[name_of(into)] = [number for part in parts for number in part][-3:]


_TITLES = {name: "".join(filter(str.isalpha, name.title())) for name in backends_to_test()}
_VARIANTS: dict[str, dict[str, Any]] = {
    "": {"ttl": None, "places": VOIDS},
    "Timed": {"ttl": ENDLESS, "places": VOIDS},
    "Windowed": {"ttl": None, "places": WINDOWS},
    "TimedNamespaced": {"ttl": ENDLESS, "places": TEXTS},
}

for _name in backends_to_test():
    for _family in (_Values, _Lists, _Maps, _Reduced):
        for _slow, (_variant, _settings) in product((False, True), _VARIANTS.items()):
            _machine: Any = type(
                f"{_TITLES[_name]}{_variant}{_family.__name__[1:]}", (_family,), {"backend_name": _name, **_settings}
            )
            _case = _machine.TestCase
            if _settings["places"] is TEXTS and not _slow:
                continue
            _examples = EXAMPLES.get(_name, 10) // (2 if _settings["places"] is WINDOWS else 1)
            _case.settings = of_model(50, _examples, slow=_slow)
            if _slow:
                _case = pytest.mark.slow(pytest.mark.timeout(1200)(_case))
            globals()[f"Test{_TITLES[_name]}{_variant}{_family.__name__[1:]}Model{'AtLength' if _slow else ''}"] = _case
del _machine, _case, _family  # else pytest runs the last one twice
