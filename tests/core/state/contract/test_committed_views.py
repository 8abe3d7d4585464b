"""What every backend promises to readers on other threads: a view shows one moment, whatever is written after it."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateDeclarationError, StateError
from pystate.common.time import Time
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.queryable_states import CommittedView, PageBound
from pystate.core.state.keys.namespaces import VOID, KeyNamespaceSerializer, NamespaceSerializer
from tests.core.state.conftest import MAX_PARALLELISM, SPILLING, BackendHarness, ManualClock

KEYS = [f"key-{n}" for n in range(6)]
NAMESPACES = KeyNamespaceSerializer(Types.LONG())


class Mean:
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1]]


def queryable(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor.set_queryable(f"q-{descriptor.name}")
    return descriptor


def descriptors() -> dict[str, StateDescriptor]:
    made = [
        ValueStateDescriptor("value", Types.LONG()),
        ValueStateDescriptor("mutable", Types.LIST(Types.LONG())),
        ListStateDescriptor("list", Types.LONG()),
        MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
        AggregatingStateDescriptor("aggregating", Mean(), Types.LIST(Types.LONG())),
        ValueStateDescriptor("windowed", Types.LONG()),
    ]
    return {descriptor.name: queryable(descriptor) for descriptor in made}


def namespaces_of(name: str) -> NamespaceSerializer:
    return NAMESPACES if name == "windowed" else VOID


def found(
    view: CommittedView, backend: KeyedStateBackend, name: str, key: str, namespace: Any = None, limit: int = 3
) -> Any:
    """Return what a view holds of a key, as user code would see it; maps in pages."""
    info = backend.queryable_states()[f"q-{name}"]
    state = view.state(name)
    if state is None:
        return None
    internal = backend.key_codec.internal(key)
    group = backend.key_codec.key_group(internal, MAX_PARALLELISM)
    address = info.schema.addresses(backend.key_codec).address(internal, info.schema.namespaces.internal(namespace))
    read = info.schema.values.deserialize
    if info.schema.kind is StateKind.LIST:
        return [read(element) for element in state.elements(address, group)] or None
    if info.schema.kind is StateKind.MAP:
        assert info.schema.user_keys is not None
        entries: dict[Any, Any] = {}
        after: bytes | None = None
        while True:
            page, after = state.entries(address, group, b"", after, PageBound(limit, 1 << 20))
            assert len(page) <= limit
            for user_key, value in page:
                shown = info.schema.user_keys.external(info.schema.user_keys.decode(user_key))
                assert shown not in entries
                entries[shown] = read(value)
            if after is None:
                return entries or None
    data = state.value(address, group)
    return None if data is None else read(data)


class Run:
    """A backend and a model of what it has flushed: state name -> (key, namespace) -> value."""

    def __init__(self, harness: BackendHarness, seed: int) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.descriptors = descriptors()
        self.flushed: dict[str, dict[tuple[str, Any], Any]] = {name: {} for name in self.descriptors}
        self.running = copy.deepcopy(self.flushed)

    def state(self, name: str, key: str, namespace: Any) -> Any:
        handle = self.harness.at(key).get_or_create_keyed_state(self.descriptors[name], namespaces_of(name))
        if namespace is not None:
            handle.set_current_namespace(namespace)
        return handle.state

    def change(self) -> None:
        name, key, number = self.random.choice(list(self.descriptors)), self.random.choice(KEYS), self.random.randrange(100)
        namespace = self.random.randrange(3) if name == "windowed" else None
        model, place = self.running[name], (key, namespace)
        state = self.state(name, key, namespace)
        if self.random.random() < 0.15:
            state.clear()
            model.pop(place, None)
            return
        if name in ("value", "windowed"):
            state.update(number)
            model[place] = number
        elif name == "mutable":
            value = state.value()
            if value is None:
                state.update([number])
            else:
                value.append(number)  # in place, without update
            model[place] = [*model.get(place, []), number]
        elif name == "list":
            if self.random.random() < 0.2:
                state.update([number, number])
                model[place] = [number, number]
            else:
                state.add(number)
                model[place] = [*model.get(place, []), number]
        elif name == "map":
            user_key = f"m{number % 9}"
            entries = dict(model.get(place, {}))
            if self.random.random() < 0.3:
                state.remove(user_key)
                entries.pop(user_key, None)
            else:
                state.put(user_key, None if number % 10 == 0 else number)
                entries[user_key] = None if number % 10 == 0 else number
            model[place] = entries
            if not entries:
                del model[place]
        elif name == "reducing":
            state.add(number)
            model[place] = model.get(place, 0) + number
        else:
            state.add(number)
            total, count = model.get(place, [0, 0])
            model[place] = [total + number, count + 1]

    def epoch(self) -> None:
        for _ in range(self.random.randrange(25)):
            self.change()
        if self.random.random() < 0.2:
            self.harness.rollback()
            self.running = copy.deepcopy(self.flushed)
        else:
            self.harness.flush()
            self.flushed = copy.deepcopy(self.running)

    def check(self, view: CommittedView, model: dict[str, dict[tuple[str, Any], Any]]) -> None:
        for name, of_state in model.items():
            for key in KEYS:
                for namespace in range(3) if name == "windowed" else (None,):
                    shown = found(view, self.harness.backend, name, key, namespace)
                    assert shown == of_state.get((key, namespace)), (name, key, namespace)


@pytest.mark.parametrize("seed", range(4))
def test_a_view_shows_the_moment_it_was_made_whatever_comes_later(harness: BackendHarness, seed: int) -> None:
    if harness.backend_name == SPILLING and seed:
        pytest.skip("each spill takes its time, and is no matter of views")
    run = Run(harness, seed)
    for name in run.descriptors:
        run.state(name, KEYS[0], 0 if name == "windowed" else None)
    views: list[tuple[CommittedView, Any]] = []
    snapshots: list[Any] = []
    for _ in range(25):
        run.epoch()
        views.append((harness.backend.committed_view(), copy.deepcopy(run.flushed)))
        if run.random.random() < 0.5:  # the newest is never closed while there is writing: its owner opens another first
            view, _ = views.pop(run.random.randrange(len(views) - 1)) if len(views) > 1 else (None, None)
            if view is not None:
                view.close()
        while len(views) > 4:
            views.pop(0)[0].close()
        if run.random.random() < 0.3:
            snapshots += harness.snapshot()
        elif snapshots:
            snapshots.pop().release()
        for view, model in views:
            run.check(view, model)
        run.change()  # what runs is in no view
        for view, model in views:
            run.check(view, model)
        harness.rollback()
        run.running = copy.deepcopy(run.flushed)
    for view, _ in views:
        view.close()
    for snapshot in snapshots:
        snapshot.release()
    run.epoch()


def test_states_of_which_one_read_by_another_thread_are_never_torn(backend_name: str) -> None:
    if backend_name not in ("hashmap", "rocksdb"):
        pytest.skip("the other backends write as these do")
    harness = BackendHarness(backend_name)
    value = queryable(ValueStateDescriptor("value", Types.LONG()))
    entries = queryable(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
    harness.use("k", value), harness.use("k", entries)
    views: list[CommittedView] = [harness.backend.committed_view()]
    torn: list[Any] = []
    reads = [0, 0]
    ended = threading.Event()

    def read(which: int) -> None:
        while not ended.is_set():
            view = views[-1]
            for key in KEYS:
                number = found(view, harness.backend, "value", key)
                held = found(view, harness.backend, "map", key, limit=1_000)
                if (None if number is None else {f"m{n}": number for n in range(20)}) != held:
                    torn.append((number, held))
            reads[which] += 1

    readers = [threading.Thread(target=read, args=(which,)) for which in range(2)]
    for reader in readers:
        reader.start()
    number = 0
    while min(reads) < 25 and not torn:
        number += 1
        for key in KEYS:
            harness.use(key, value).update(number)
            harness.use(key, entries).put_all({f"m{n}": number for n in range(20)})
        harness.flush()
        views.append(harness.backend.committed_view())
    ended.set()
    for reader in readers:
        reader.join()
    for view in views:
        view.close()
    assert not torn


def test_a_state_that_is_declared_later_is_in_later_views_only(harness: BackendHarness) -> None:
    first = harness.backend.committed_view()
    harness.use("k", queryable(ValueStateDescriptor("value", Types.LONG()))).update(1)
    harness.flush()
    second = harness.backend.committed_view()
    assert first.state("value") is None
    assert found(second, harness.backend, "value", "k") == 1
    harness.use("k", queryable(ValueStateDescriptor("value", Types.LONG()))).update(2)
    harness.flush()
    assert found(second, harness.backend, "value", "k") == 1
    second.close()
    first.close()


def test_views_may_be_closed_in_any_order_and_after_the_backend(harness: BackendHarness) -> None:
    state = queryable(ValueStateDescriptor("value", Types.LONG()))
    views = []
    for number in range(5):
        harness.use("k", state).update(number)
        harness.flush()
        views.append(harness.backend.committed_view())
    for which in (2, 0, 1, 0):
        views.pop(which).close()
        assert [found(view, harness.backend, "value", "k") for view in views] == {
            4: [0, 1, 3, 4],
            3: [1, 3, 4],
            2: [1, 4],
            1: [4],
        }[len(views)]
    harness.backend.close()
    views[0].close()


def test_expired_values_keep_their_time_in_a_view(backend_name: str) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    state = queryable(ValueStateDescriptor("value", Types.LONG()))
    state.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    harness.use("k", state).update(7)
    harness.flush()
    info = harness.backend.queryable_states()["q-value"]
    assert info.ttl_millis == 1_000
    view = harness.backend.committed_view()
    internal = harness.codec.internal("k")
    stored = view.state("value")
    assert stored is not None
    data = stored.value(internal, harness.codec.key_group(internal, MAX_PARALLELISM))
    assert data is not None
    assert info.schema.serializer.deserialize(data) == (1_000, 7)
    view.close()


def test_pickled_state_and_two_states_of_one_name_are_refused(harness: BackendHarness) -> None:
    pickled = queryable(ValueStateDescriptor("value", Types.LIST(Types.PICKLED_BYTE_ARRAY())))
    with pytest.raises(StateDeclarationError, match="pickled"):
        harness.use("k", pickled)
    one, other = ValueStateDescriptor("one", Types.LONG()), ValueStateDescriptor("other", Types.LONG())
    one.set_queryable("name")
    other.set_queryable("name")
    harness.use("k", one)
    with pytest.raises(StateDeclarationError, match="Two states are queryable as 'name'"):
        harness.use("k", other)


@pytest.mark.parametrize("name", ["", None, 1, "\ud800"])
def test_a_queryable_name_is_a_text(name: Any) -> None:
    with pytest.raises(StateError):
        ValueStateDescriptor("value", Types.LONG()).set_queryable(name)


def test_a_state_has_one_queryable_name() -> None:
    descriptor = ValueStateDescriptor("value", Types.LONG())
    assert not descriptor.is_queryable()
    assert descriptor.get_queryable_state_name() is None
    descriptor.set_queryable("a")
    descriptor.set_queryable("a")
    assert descriptor.is_queryable()
    assert descriptor.get_queryable_state_name() == "a"
    with pytest.raises(StateError, match="queryable as 'a' already"):
        descriptor.set_queryable("b")
    assert descriptor == ValueStateDescriptor("value", Types.LONG())


def test_nothing_is_kept_where_nothing_is_queryable(harness: BackendHarness) -> None:
    harness.use("k", ValueStateDescriptor("value", Types.LONG())).update(1)
    harness.flush()
    view = harness.backend.committed_view()
    assert view.state("value") is None
    harness.use("k", ValueStateDescriptor("value", Types.LONG())).update(2)
    harness.flush()
    view.close()


def test_paging_by_prefix_shows_each_entry_once(harness: BackendHarness) -> None:
    descriptor = queryable(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
    entries = {f"{letter}{number}": number for letter in "ab" for number in range(25)}
    harness.use("k", descriptor).put_all(entries)
    harness.flush()
    view = harness.backend.committed_view()
    state = view.state("map")
    assert state is not None
    schema = harness.backend.queryable_states()["q-map"].schema
    assert schema.user_keys is not None
    internal = harness.codec.internal("k")
    group = harness.codec.key_group(internal, MAX_PARALLELISM)
    prefix = schema.user_keys.encode("b")

    def pages() -> Iterator[list[tuple[bytes, bytes]]]:
        after: bytes | None = None
        while True:
            page, after = state.entries(internal, group, prefix, after, PageBound(7, 1 << 20))
            yield page
            if after is None:
                return

    found_pages = list(pages())
    assert [len(page) for page in found_pages[:3]] == [7, 7, 7]
    shown = [schema.user_keys.external(schema.user_keys.decode(data)) for page in found_pages for data, _ in page]
    assert sorted(shown) == sorted(f"b{number}" for number in range(25))
    view.close()
