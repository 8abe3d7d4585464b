"""A step with windows that comes back with another allowed lateness: no window of before is left for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.time import Time
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.window.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.core.api.window.evictors import CountEvictor
from pystate.core.api.window.triggers import ContinuousEventTimeTrigger, CountTrigger, EventTimeTrigger
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.core.api.window.windows import MAX_TIMESTAMP
from pystate.testing import WindowOperatorTestHarness
from tests.testing.windows.test_closed_windows import Sum

BACKENDS = ("hashmap", "rocksdb")
ms = Time.milliseconds
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
FIRED = ValueStateDescriptor("fired", Types.LONG())


class Remember(ProcessWindowFunction):
    """Has a state of the window."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        context.window_state().get_state(FIRED).update(1)
        yield sum(element if isinstance(element, int) else element[1] for element in elements)

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        context.window_state().get_state(FIRED).clear()


class Total(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        yield sum(number for _, number in elements)


AGGREGATE: dict[str, Any] = {"aggregate_function": Sum(), "accumulator_type": Types.LONG()}
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "tumbling": (TumblingEventTimeWindows.of(ms(10)), AGGREGATE),
    "tumbling, states of the window": (TumblingEventTimeWindows.of(ms(10)), {**AGGREGATE, "window_function": Remember()}),
    "tumbling, elements": (TumblingEventTimeWindows.of(ms(10)), {"window_function": Remember()}),
    "tumbling, an evictor": (
        TumblingEventTimeWindows.of(ms(10)),
        {"window_function": Total(), "evictor": CountEvictor.of(9)},
    ),
    "tumbling, a counting trigger": (TumblingEventTimeWindows.of(ms(10)), {**AGGREGATE, "trigger": CountTrigger.of(2)}),
    "tumbling, a trigger with state": (
        TumblingEventTimeWindows.of(ms(10)),
        {**AGGREGATE, "trigger": ContinuousEventTimeTrigger.of(ms(4))},
    ),
    "sliding": (SlidingEventTimeWindows.of(ms(10), ms(4)), AGGREGATE),
    "sessions": (EventTimeSessionWindows.with_gap(ms(9)), AGGREGATE),
    "sessions, elements": (EventTimeSessionWindows.with_gap(ms(9)), {"window_function": Total()}),
}


def opened(shape: str, backend: str, lateness: int, snapshot: Any = None) -> WindowOperatorTestHarness:
    assigner, options = SHAPES[shape]
    harness = WindowOperatorTestHarness(
        assigner,
        lambda value: value[0],
        Types.LONG(),
        input_type=PAIR,
        state_backend=backend,
        allowed_lateness=lateness,
        **{"trigger": EventTimeTrigger(), **options},
    )
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def left(harness: WindowOperatorTestHarness) -> tuple[int, int]:
    harness.end_epoch()
    return harness.num_keyed_state_entries(), harness.num_event_time_timers()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("before", "after"), [(0, 50), (20, 50), (50, 20), (50, 0)])
@pytest.mark.parametrize("watermark", [2, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_windows_of_a_snapshot_are_forgotten(shape: str, before: int, after: int, watermark: int, backend: str) -> None:
    """At the latest with the lateness of before or of now, whichever is longer, counted from the last window's end."""
    with opened(shape, backend, before) as first:
        first.process_elements([(key, 1) for key in range(3)] * 2, [1, 1, 1, 5, 5, 5])
        first.process_watermark(watermark)
        snapshot = first.snapshot(1)
        fired = len(first.extract_output())
    with opened(shape, backend, after, snapshot) as second:
        second.process_watermark(watermark)
        second.process_watermark(max(before, after) + 14)
        found = len(second.extract_output())
        assert left(second) == (0, 0)
    with opened(shape, backend, before, snapshot) as same:
        same.process_watermark(watermark)
        same.process_watermark(MAX_TIMESTAMP)
        assert found == len(same.extract_output())
    assert fired + found > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_lateness_holds_for_open_windows_of_a_snapshot(backend: str) -> None:
    with opened("tumbling", backend, 0) as first:
        first.process_elements([(1, 5)], [1])
        snapshot = first.snapshot(1)
    with opened("tumbling", backend, 20, snapshot) as second:
        second.process_watermark(15)
        second.process_elements([(1, 2)], [3])
        second.process_watermark(28)
        assert second.extract_output() == [5, 7]
        assert left(second) == (2, 1)
        second.process_watermark(29)
        assert left(second) == (0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_less_lateness_holds_for_windows_of_a_snapshot_that_have_fired(backend: str) -> None:
    with opened("tumbling", backend, 50) as first:
        first.process_elements([(1, 5)], [1])
        first.process_watermark(15)
        snapshot = first.snapshot(1)
    with opened("tumbling", backend, 0, snapshot) as second:
        second.process_watermark(15)
        second.process_elements([(1, 2)], [3])
        second.process_watermark(MAX_TIMESTAMP)
        assert second.extract_output() == []
        assert left(second) == (0, 0)
