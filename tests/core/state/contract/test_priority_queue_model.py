"""Any sequence of additions, removals, epochs, snapshots and restores of timers, against a plain set."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.keys.namespaces import TIME_WINDOWS, VOID
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, backends_to_test
from tests.core.state.contract.epoch_machine import EpochMachine
from tests.hypothesis_profiles import of_model

FEW_CACHED = {RocksDBOptions.TIMER_SERVICE_CACHE_SIZE.key: "2"}
KEYS = [1, "a", ("t", 1)]
KEY = st.integers(0, 2)
TIME = st.integers(-6, 6)
WINDOWS = [(0, 10), (5, 15)]
Model = set[tuple[int, int, Any]]
"""Time, number of the key, namespace."""


class _Timers(EpochMachine):
    settings = FEW_CACHED
    most_open = 2

    def __init__(self) -> None:
        super().__init__(set())

    @initialize(with_windows=st.booleans())
    def choose(self, with_windows: bool) -> None:
        self.schema = TimerSchema("t", TimeDomain.EVENT_TIME, TIME_WINDOWS if with_windows else VOID)
        self.windows = WINDOWS if with_windows else [None, None]

    def queue(self, key: int) -> KeyGroupedPriorityQueue:
        return self.harness.at(KEYS[key]).get_priority_queue(self.schema)

    def queues(self) -> list[KeyGroupedPriorityQueue]:
        return [backend.get_priority_queue(self.schema) for backend in self.harness.backends]

    def group(self, key: int) -> int:
        codec = self.harness.codec
        return codec.key_group(codec.internal(KEYS[key]), MAX_PARALLELISM)

    def known(self, timer: Any) -> tuple[int, int, Any]:
        key = self.harness.codec.external(timer.key)
        return timer.timestamp, KEYS.index(key), timer.namespace

    @rule(key=KEY, times=st.lists(TIME, min_size=1, max_size=4), window=st.integers(0, 1))
    def add(self, key: int, times: list[int], window: int) -> None:
        queue = self.queue(key)
        for time in times:
            queue.add(queue.timer(time, self.windows[window]))
            self.running.add((time, key, self.windows[window]))

    @rule(key=KEY, time=TIME, window=st.integers(0, 1))
    def remove(self, key: int, time: int, window: int) -> None:
        queue = self.queue(key)
        queue.remove(queue.timer(time, self.windows[window]))
        self.running.discard((time, key, self.windows[window]))

    @rule(key=st.none() | KEY, how_many=st.integers(1, 5))
    def poll(self, key: int | None, how_many: int) -> None:
        group = None if key is None else self.group(key)
        for queue in self.queues():
            owned = queue._owned
            for _ in range(how_many):
                mine = {one for one in self.running if self.group(one[1]) in owned}
                mine = {one for one in mine if group in (None, self.group(one[1]))}
                first, timer = queue.peek(group), queue.poll(group)
                assert first == timer
                if not mine:
                    assert timer is None
                    break
                assert timer is not None
                assert timer.timestamp == min(mine)[0] == min(time for time, _, _ in mine)
                assert self.known(timer) in mine
                self.running.discard(self.known(timer))

    @rule()
    def iterate(self) -> None:
        found: list[Any] = []
        for queue in self.queues():
            for group in queue._owned:
                timers = list(queue.timers(group))
                assert [timer.timestamp for timer in timers] == sorted(timer.timestamp for timer in timers)
                found += timers
            assert queue.is_empty() == (not list(queue))
        assert (len(found), {self.known(timer) for timer in found}) == (len(self.running), self.running)

    def end_epoch(self) -> None:
        assert self.harness.entry_count() == len(self.flushed)
        self.iterate()

    def compare(self, harness: BackendHarness, model: Model) -> None:
        found = [timer for backend in harness.backends for timer in backend.get_priority_queue(self.schema)]
        assert (len(found), {self.known(timer) for timer in found}) == (len(model), model)


for _name in backends_to_test():
    for _slow in (False, True):
        _title = "".join(filter(str.isalpha, _name.title()))
        _machine: Any = type(f"{_title}Timers", (_Timers,), {"backend_name": _name})
        _case = _machine.TestCase
        _case.settings = of_model(40, 20 if _name == "hashmap" else 10, slow=_slow)
        if _slow:
            _case = pytest.mark.slow(pytest.mark.timeout(1200)(_case))
        globals()[f"Test{_title}TimersModel{'AtLength' if _slow else ''}"] = _case
del _machine, _case  # else pytest runs the last one twice
