"""What session windows and their timers need of a backend, as docs/architecture.md says it: a small operator."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Types
from pystate.core.api.state import ListStateDescriptor, ReducingStateDescriptor
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.keys.namespaces import TIME_WINDOWS
from pystate.core.state.kinds.internal_state import InternalMergingState
from tests.core.state.conftest import SPILLING, BackendHarness

GAP = 10
SUM = ReducingStateDescriptor("sum", lambda left, right: left + right, Types.LONG())
SESSIONS = ListStateDescriptor("sessions", Types.LIST(Types.LONG()))
TIMERS = TimerSchema("window-timers", TimeDomain.EVENT_TIME, TIME_WINDOWS)

Window = tuple[int, int]


class SumOfSessions:
    """Sums numbers by key and session; a session ends where nothing comes for `GAP`."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        sums = backend.get_or_create_keyed_state(SUM, TIME_WINDOWS)
        assert isinstance(sums, InternalMergingState)
        self.backend, self.sums = backend, sums
        self.sessions: Any = backend.get_partitioned_state(SESSIONS)
        self.timers = backend.get_priority_queue(TIMERS)

    def process(self, time: int, value: int) -> None:
        """Add a value of the current key."""
        mine, others = (time, time + GAP), [(start, end) for start, end in self.sessions.get()]
        met = [window for window in others if window[0] <= mine[1] and mine[0] <= window[1]]
        merged = min([mine, *met])[0], max(end for _, end in [mine, *met])
        self.sums.merge_namespaces(merged, met)
        self.sums.set_current_namespace(merged)
        self.sums.state.add(value)
        self.sessions.update([list(window) for window in [*(one for one in others if one not in met), merged]])
        for window in met:
            self.timers.remove(self.timers.timer(window[1], window))
        self.timers.add(self.timers.timer(merged[1], merged))

    def advance(self, watermark: int) -> list[tuple[Any, Window, int]]:
        """Fire the timers up to a watermark; return (key, window, sum) of the sessions that end."""
        fired = []
        context, external = self.backend.key_context, TIMERS.namespaces.external
        while (timer := self.timers.peek()) is not None and timer.timestamp <= watermark:
            self.timers.poll()
            context.set_current_key(timer.key, timer.key_group)
            window = external(timer.namespace)
            self.sums.set_current_namespace(window)
            fired.append((context.current_key, window, self.sums.state.get()))
            self.sums.state.clear()
            self.sessions.update([list(one) for one in map(tuple, self.sessions.get()) if one != window])
            self.backend.limit_epoch(1, 1)
        return fired


class Operator:
    def __init__(self, harness: BackendHarness) -> None:
        self.harness = harness
        self.subtasks = [SumOfSessions(backend) for backend in harness.backends]

    def process(self, key: Any, time: int, value: int) -> None:
        backend = self.harness.at(key)
        next(one for one in self.subtasks if one.backend is backend).process(time, value)

    def advance(self, watermark: int) -> list[tuple[Any, Window, int]]:
        fired = [one.advance(watermark) for one in self.subtasks]
        assert all([end for _, (_, end), _ in of_one] == sorted(end for _, (_, end), _ in of_one) for of_one in fired)
        return sorted((result for of_one in fired for result in of_one), key=repr)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_sessions_merge_fire_in_order_and_go_on_after_a_restore(backend_name: str, parallelism: int) -> None:
    harness = BackendHarness(backend_name, parallelism=parallelism)
    operator = Operator(harness)
    for key, time, value in [("a", 0, 1), ("b", 3, 2), ("a", 18, 4), (7, 100, 8)]:
        operator.process(key, time, value)
    harness.flush()
    operator.process("a", 9, 16)  # joins both
    assert operator.advance(50) == [("a", (0, 28), 21), ("b", (3, 13), 2)]
    harness.rollback()
    assert operator.advance(12) == [("a", (0, 10), 1)]
    harness.rollback()
    operator.process("a", 9, 16)
    harness.flush()
    name = "rocksdb" if backend_name == SPILLING else backend_name
    restored = harness.restored(harness.save(), 3 - parallelism, name)
    for after in (operator, Operator(restored)):
        assert after.advance(27) == [("b", (3, 13), 2)]
        assert after.advance(1_000) == [("a", (0, 28), 21), (7, (100, 110), 8)]
        after.harness.flush()
        assert after.harness.entry_count() == 0
