"""States with a time to live, in any sequence of accesses, ticks, epochs, snapshots and restores, against a model.

The model has a time beside each value and does what Flink's wrappers do. With a clean-up, expired values may be gone any
moment: then they must never be seen, and the time to live only gets shorter. Without one, a restore may bring any other
configuration, or none, and what an access didn't remove comes back.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pystate.core.api.state import StateDescriptor
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot
from pystate.core.state.base.loader import state_backend_names
from tests.core.state.conftest import BackendHarness, ManualClock, backends_to_test, written
from tests.core.state.contract.test_states_model import DESCRIPTORS, USER_KEYS, name_of
from tests.core.state.contract.ttl_states import with_ttl
from tests.hypothesis_profiles import of_model

EXAMPLES = {"hashmap": 20}  # the others, 10: they open files for each


class Config(NamedTuple):
    millis: int
    on_read: bool
    show: bool
    cleanup: tuple[int, bool] | None
    full_snapshot: bool


class Cell:
    """A value, an element or a map entry with its time."""

    def __init__(self, time: int, value: Any, user_key: Any = None) -> None:
        self.time = time
        self.value = value
        self.user_key = user_key


Cells = list[Cell]
Model = dict[str, Cells]
_KEPT = st.builds(Config, st.integers(2, 9), st.booleans(), st.booleans(), st.none(), st.booleans())
_CLEANUPS = st.tuples(st.integers(1, 4), st.booleans())
CONFIGS = _KEPT | st.builds(Config, st.integers(2, 9), st.booleans(), st.just(value=False), _CLEANUPS, st.booleans())


WAITS = st.sampled_from(["no", "no", "short", "almost", "just"])
WRITES_FIRST = st.booleans()
TWO_KEYS = st.sampled_from([1, True])  # so that accesses meet


class _TtlMachine(RuleBasedStateMachine):
    """Each example is about one state and three keys."""

    backend_name = ""
    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(100)
        self.harness = BackendHarness(self.backend_name, clock=self.clock)
        self.flushed: Model = {}
        self.running: Model = {}
        self.open: list[tuple[list[KeyedStateSnapshot], Model, int]] = []
        self.handed: dict[str, tuple[list[Any], int]] = {}
        self.counter = 0

    @initialize(index=st.integers(0, 1), config=CONFIGS)
    def choose(self, index: int, config: Config) -> None:
        self.name = self.names[index % len(self.names)]
        self.config: Config | None = config

    # what the model does

    def descriptor(self, config: Config | None) -> StateDescriptor:
        plain = DESCRIPTORS[self.name]
        if config is None:
            return plain
        millis, on_read, show, cleanup, full = config
        return with_ttl(plain, millis=millis, on_read=on_read, show_expired=show, cleanup=cleanup, full_snapshot=full)

    def state(self, key: Any) -> Any:
        spills = self.harness.spills
        state = self.harness.use(key, self.descriptor(self.config))
        if self.harness.spills != spills:
            self.handed.clear()
        return state

    def cells(self, key: Any) -> Cells:
        return self.running.setdefault(name_of(key), [])

    def expired(self, cell: Cell, config: Config | None, now: int) -> bool:
        return config is not None and cell.time + config.millis <= now

    def read_cells(self, key: Any, cells: Iterable[Cell]) -> Cells:
        """Read some cells of a key, one by one: what has expired goes; return what is seen."""
        seen = []
        for cell in list(cells):
            if self.expired(cell, self.config, self.clock.now):
                self.cells(key).remove(cell)
                if self.config is not None and self.config.show:
                    seen.append(cell)
                continue
            if self.config is not None and self.config.on_read:
                cell.time = self.clock.now
            seen.append(cell)
        return seen

    def visible(self, model: Model, config: Config | None) -> Model:
        """Return what is seen of a model, without reading it."""
        hides = config is not None and not config.show
        found = {
            key: [cell for cell in cells if not (hides and self.expired(cell, config, self.clock.now))]
            for key, cells in model.items()
        }
        return {key: cells for key, cells in found.items() if cells}

    def fresh(self) -> Any:
        """Return a value unlike all others; elements of a list are then told apart."""
        self.counter += 1
        return [self.counter] if self.name in ("list", "lists", "map of lists") else self.counter

    def wait(self, how: str) -> None:
        """Let time go by: what was written just now is then still there, or has just expired."""
        millis = 5 if self.config is None else self.config.millis
        self.clock.now += {"no": 0, "short": 1, "almost": millis - 1, "just": millis}[how]

    # what happens to all states

    @rule(key=TWO_KEYS)
    def clear(self, key: Any) -> None:
        self.state(key).clear()
        self.cells(key).clear()
        self.handed.pop(name_of(key), None)

    @rule(wait=WAITS)
    def apply_to_all_keys(self, wait: str) -> None:
        self.wait(wait)
        visited: list[str] = []
        for backend in self.harness.backends:
            descriptor = self.descriptor(self.config)
            backend.apply_to_all_keys(descriptor, lambda key, _: visited.append(name_of(key)))
        assert sorted(visited) == sorted(self.visible(self.running, self.config))

    @rule(records=st.integers(0, 3), wait=WAITS)
    def flush(self, records: int, wait: str) -> None:
        self.wait(wait)
        for backend in self.harness.backends:
            backend.count_records(records)
        self.harness.flush()
        self.flushed = copy.deepcopy(self.running)
        self.handed.clear()

    @rule()
    def rollback(self) -> None:
        self.harness.rollback()
        self.running = copy.deepcopy(self.flushed)
        self.handed.clear()

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def take_snapshot(self) -> None:
        model = copy.deepcopy(self.flushed)
        if self.config is not None and self.config.full_snapshot and self.declared():
            for key, cells in model.items():
                model[key] = [cell for cell in cells if not self.expired(cell, self.config, self.clock.now)]
        self.open.append((self.harness.snapshot(), model, self.clock.now))

    def declared(self) -> bool:
        return all(self.name in backend._handles for backend in self.harness.backends)

    @precondition(lambda self: self.open)
    @rule(
        which=st.integers(0, 2),
        parallelism=st.sampled_from([1, 2, 3]),
        config=st.none() | CONFIGS,
        backend_name=st.sampled_from(state_backend_names()),
        go_on=st.booleans(),
    )
    def restore(self, which: int, parallelism: int, config: Config | None, backend_name: str, go_on: bool) -> None:
        snapshots, model, _ = self.open.pop(which % len(self.open))
        files = [written(snapshot) for snapshot in snapshots]
        before = self.config
        if before is not None and before.cleanup is not None:
            config = before._replace(millis=min(before.millis, config.millis if config is not None else 9))
        if before is None and config is not None:
            for cell in [cell for cells in model.values() for cell in cells]:
                cell.time = self.clock.now
        self.compare(self.harness.restored(files, parallelism, backend_name), model, config)
        if not go_on:
            return
        for others, _, _ in self.open:
            for snapshot in others:
                snapshot.release()
        self.open.clear()
        self.harness = self.harness.restored(files, parallelism)
        self.config = config
        for backend in self.harness.backends:
            backend.get_partitioned_state(self.descriptor(config))
        self.flushed, self.running = model, copy.deepcopy(model)
        self.handed.clear()

    def compare(self, harness: BackendHarness, model: Model, config: Config | None) -> None:
        found: dict[str, Any] = {}

        def keep(key: Any, state: Any) -> None:
            if self.name in USER_KEYS:
                found[name_of(key)] = {name_of(user_key): value for user_key, value in state.items()}
            else:
                found[name_of(key)] = state.value() if self.name in ("number", "list") else state.get()

        for backend in harness.backends:
            backend.apply_to_all_keys(self.descriptor(config), keep)
        expected = {key: self.shown(cells) for key, cells in self.visible(model, config).items()}
        assert found == expected

    def shown(self, cells: Cells) -> Any:
        return cells[0].value

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.flush(0, "no")
            self.compare(self.harness, self.flushed, self.config)
        for snapshots, _, _ in self.open:
            for snapshot in snapshots:
                snapshot.release()


class _TtlValues(_TtlMachine):
    names = ("number", "list")

    @rule(key=TWO_KEYS, remove=st.integers(0, 4))
    def update(self, key: Any, remove: int) -> None:
        value = self.fresh() if remove else None
        self.state(key).update(copy.copy(value))
        self.cells(key)[:] = [Cell(self.clock.now, value)] if remove else []

    @rule(key=TWO_KEYS, change=st.booleans(), write=WRITES_FIRST, wait=WAITS)
    def read(self, key: Any, change: bool, write: bool, wait: str) -> None:
        if write:
            self.update(key, 1)
        self.wait(wait)
        for _ in range(2):  # what was shown for the last time isn't shown again
            value = self.state(key).value()
            seen = self.read_cells(key, self.cells(key))
            assert value == (seen[0].value if seen else None)
        if change and isinstance(value, list):
            value.append(7)
            for cell in self.cells(key):
                cell.value.append(7)


class _TtlReduced(_TtlMachine):
    names = ("sum", "last")

    @rule(key=TWO_KEYS, wait=WAITS)
    def add(self, key: Any, wait: str) -> None:
        self.wait(wait)
        self.counter += 1
        self.state(key).add(self.counter)
        seen = self.read_cells(key, self.cells(key))
        if self.name == "sum":
            value = self.counter + (seen[0].value if seen else 0)
        else:
            value = [*(seen[0].value if seen else []), self.counter][-3:]
        self.cells(key)[:] = [Cell(self.clock.now, value)]

    @rule(key=TWO_KEYS, write=WRITES_FIRST, wait=WAITS)
    def read(self, key: Any, write: bool, wait: str) -> None:
        if write:
            self.add(key, "no")
        self.wait(wait)
        value = self.state(key).get()
        seen = self.read_cells(key, self.cells(key))
        assert value == (self.shown(seen) if seen else None)

    def shown(self, cells: Cells) -> Any:
        return str(cells[0].value) if self.name == "last" else cells[0].value


class _TtlLists(_TtlMachine):
    names = ("numbers", "lists")

    @rule(key=TWO_KEYS, count=st.integers(0, 3), how=st.sampled_from(["add", "add_all", "update"]))
    def write(self, key: Any, count: int, how: str) -> None:
        values = [self.fresh() for _ in range(count)]
        state = self.state(key)
        if how == "add":
            for value in values:
                state.add(copy.copy(value))
        else:
            getattr(state, how)(copy.deepcopy(values))
        if how == "update":
            self.cells(key).clear()
            self.handed.pop(name_of(key), None)
        self.cells(key).extend(Cell(self.clock.now, value) for value in values)

    @rule(key=TWO_KEYS, write=WRITES_FIRST, wait=WAITS)
    def read(self, key: Any, write: bool, wait: str) -> None:
        if write:
            self.write(key, 2, "add")
        self.wait(wait)
        elements = self.state(key).get()
        now, cells, config = self.clock.now, self.cells(key), self.config
        if config is not None and not config.show:
            cells[:] = [cell for cell in cells if not self.expired(cell, config, now)]
        assert elements == [cell.value for cell in cells]
        if config is not None and config.on_read:
            for cell in cells:
                if not self.expired(cell, config, now):
                    cell.time = now
        if all(self.expired(cell, config, now) for cell in cells) and cells:
            cells.clear()
            self.handed.pop(name_of(key), None)
        else:
            self.handed[name_of(key)] = elements, now

    @rule(
        key=TWO_KEYS,
        change=st.sampled_from(["append", "insert", "pop", "reverse", "in element"]),
        wait=WAITS,
        read=st.booleans(),
    )
    def change_in_place(self, key: Any, change: str, wait: str, read: bool) -> None:
        """Change a list that was handed out in this epoch, maybe some time ago."""
        if read:
            self.read(key, write=True, wait=wait)
        self.wait("short")
        if name_of(key) not in self.handed:
            return
        elements, time = self.handed[name_of(key)]
        cells = self.cells(key)
        handed, added = cells[: len(elements)], cells[len(elements) :]  # what was added later isn't in the list yet
        if change in ("append", "insert"):
            value = self.fresh()
            position = len(elements) if change == "append" else len(elements) // 2
            elements.insert(position, copy.copy(value))
            handed.insert(position, Cell(time, value))
        elif change == "reverse":
            elements.reverse()
            handed.reverse()
        elif elements:
            if change == "pop":
                elements.pop(0)
                handed.pop(0)
            elif self.name == "lists":
                elements[0].append(8)
                handed[0].value.append(8)
        cells[:] = handed + added
        self.read(key, write=False, wait=wait)

    def shown(self, cells: Cells) -> Any:
        return [cell.value for cell in cells]


class _TtlMaps(_TtlMachine):
    names = ("counts", "map of lists")

    def entry(self, key: Any, user_key: Any) -> Cells:
        return [cell for cell in self.cells(key) if name_of(cell.user_key) == name_of(user_key)]

    def set_entry(self, key: Any, user_key: Any, value: Any) -> None:
        self.drop_entry(key, user_key)
        self.cells(key).append(Cell(self.clock.now, value, user_key))

    def drop_entry(self, key: Any, user_key: Any) -> None:
        for cell in self.entry(key, user_key):
            self.cells(key).remove(cell)

    @rule(key=TWO_KEYS, data=st.data(), null=st.booleans())
    def put(self, key: Any, data: st.DataObject, null: bool) -> None:
        user_key, value = data.draw(USER_KEYS[self.name]), None if null else self.fresh()
        self.state(key)[user_key] = copy.copy(value)
        self.set_entry(key, user_key, value)

    @rule(key=TWO_KEYS, data=st.data())
    def remove(self, key: Any, data: st.DataObject) -> None:
        user_key = data.draw(USER_KEYS[self.name])
        del self.state(key)[user_key]
        self.drop_entry(key, user_key)

    @rule(key=TWO_KEYS, data=st.data(), how=st.sampled_from(["get", "contains", "change"]), write=WRITES_FIRST, wait=WAITS)
    def read(self, key: Any, data: st.DataObject, how: str, write: bool, wait: str) -> None:
        if write:
            self.put(key, data, null=False)
        self.wait(wait)
        user_key = data.draw(USER_KEYS[self.name])
        state = self.state(key)
        answer = state.contains(user_key) if how == "contains" else state.get(user_key)
        seen = self.read_cells(key, self.entry(key, user_key))
        if how == "contains":
            assert answer == bool(seen)
            return
        assert answer == (seen[0].value if seen else None)
        if how == "change" and isinstance(answer, list):
            answer.append(9)
            for cell in self.entry(key, user_key):
                cell.value.append(9)

    @rule(key=TWO_KEYS, data=st.data(), before=st.integers(0, 2), writes=st.integers(0, 2), wait=WAITS)
    def iterate(self, key: Any, data: st.DataObject, before: int, writes: int, wait: str) -> None:
        for _ in range(before):
            self.put(key, data, null=False)
            self.wait("short")
        self.wait(wait)
        state = self.state(key)
        assert state.is_empty() == (not self.visible(self.running, self.config).get(name_of(key)))
        began = copy.deepcopy(self.cells(key))
        iteration = state.items()
        for _ in range(writes):  # before the first entry is asked for
            self.put(key, data, null=False)
            self.remove(key, data)
        hides = self.config is not None and not self.config.show
        expected = [cell for cell in began if not (hides and self.expired(cell, self.config, self.clock.now))]
        assert {name_of(k): v for k, v in iteration} == {name_of(cell.user_key): cell.value for cell in expected}
        self.read_cells(key, [cell for old in began for cell in self.entry(key, old.user_key)])

    def shown(self, cells: Cells) -> Any:
        return {name_of(cell.user_key): cell.value for cell in cells}


_TITLES = {name: "".join(filter(str.isalpha, name.title())) for name in backends_to_test()}

for _name in backends_to_test():
    for _family in (_TtlValues, _TtlLists, _TtlMaps, _TtlReduced):
        for _slow in (False, True):
            _machine: Any = type(f"{_TITLES[_name]}{_family.__name__[1:]}", (_family,), {"backend_name": _name})
            _case = _machine.TestCase
            _case.settings = of_model(50, EXAMPLES.get(_name, 10), slow=_slow)
            if _slow:
                _case = pytest.mark.slow(pytest.mark.timeout(1200)(_case))
            globals()[f"Test{_TITLES[_name]}{_family.__name__[1:]}Model{'AtLength' if _slow else ''}"] = _case
del _machine, _case, _family  # else pytest runs the last one twice
