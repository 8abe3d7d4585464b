"""The paths of event time: windows, timers and interval joins, over the harnesses of a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pystate.common import Types
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.window.assigners import EventTimeSessionWindows, TumblingEventTimeWindows, WindowAssigner
from pystate.testing import KeyedOneInputOperatorTestHarness, TwoInputOperatorTestHarness, WindowOperatorTestHarness
from pystate.testing.harness import OperatorTestHarness
from tests.costs.measured import RECORDS, Measured

HOT = 10
RUNS = 8
"""As often may a path be run."""
KEY = Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])

Turn = tuple[Sequence[pa.RecordBatch], int]
"""A batch for each input, and the watermark after them."""


class _CountUntilTimer(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        count = self.count.value()
        if count is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 15)
        self.count.update((count or 0) + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield self.count.value()
        self.count.clear()


class _Both(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left[1], right[1]


class OneByOne(FieldAggregation):
    """The same aggregation, which no column takes over."""


def _key(value: Any) -> Any:
    return value[0]


def words_of(keys: int, records: int = RECORDS) -> list[str]:
    """Return so many words of so many keys."""
    return [f"word-{number % keys:05d}" for number in range(records)]


def _measured(name: str, harness: OperatorTestHarness, turns: Iterator[Turn], *, snapshots: bool = False) -> Measured:
    chain = harness._chain

    def run() -> None:
        batches, watermark = next(turns)
        for place, batch in enumerate(batches):
            chain.on_batch(batch, place)
        for place in range(len(batches)):
            chain.on_watermark(watermark, place)
        chain.flush_output()
        chain.finish_epoch()
        if snapshots and chain.backend is not None:
            chain.backend.snapshot().release()

    return Measured(name, RECORDS, run, harness.close)


def _batch(harness: OperatorTestHarness, words: list[str], times: list[int], place: int = 0) -> pa.RecordBatch:
    return harness._batch(place, [(word, 1) for word in words], list(times))


def _windows(name: str, function: FieldAggregation, assigner: WindowAssigner, backend: str = "hashmap") -> Measured:
    harness = WindowOperatorTestHarness(
        assigner, _key, KEY, input_type=PAIR, reduce_function=function, state_backend=backend
    )
    harness.open()
    words = words_of(HOT)
    turns = [([_batch(harness, words, [10 * turn] * RECORDS)], 10 * turn + 9) for turn in range(RUNS)]
    return _measured(name, harness, iter(turns))


def _kept_sessions(backend: str) -> Measured:
    """Return a path on which each record makes the session of its key longer, and each epoch ends with a snapshot."""
    harness = WindowOperatorTestHarness(
        EventTimeSessionWindows(1_000),
        _key,
        KEY,
        input_type=PAIR,
        reduce_function=FieldAggregation(AccumulateType.SUM, 1),
        state_backend=backend,
    )
    harness.open()
    turns = [([_batch(harness, words_of(RECORDS), [10 * turn] * RECORDS)], 10 * turn) for turn in range(RUNS)]
    return _measured(f"sessions with snapshots, {backend}", harness, iter(turns), snapshots=True)


def _timers(backend: str) -> Measured:
    """Return a path on which each record's key gets a timer, which fires one epoch later."""
    harness = KeyedOneInputOperatorTestHarness(_CountUntilTimer(), _key, KEY, input_type=PAIR, state_backend=backend)
    harness.open()
    turns = []
    for turn in range(RUNS):
        words = [f"{word}-{turn}" for word in words_of(RECORDS)]
        turns.append(([_batch(harness, words, [10 * turn] * RECORDS)], 10 * turn + 9))
    return _measured(f"timers, {backend}", harness, iter(turns))


def _interval_join(backend: str) -> Measured:
    """Return a path on which 20 to 60 elements of a key wait, and an element matches one or two of them."""
    harness = TwoInputOperatorTestHarness(
        IntervalJoinOperation(950, 1_000, _Both()),
        _key,
        _key,
        KEY,
        input_type1=PAIR,
        input_type2=PAIR,
        state_backend=backend,
    )
    harness.open()
    words = words_of(HOT, RECORDS // 2)
    turns = []
    for turn in range(RUNS):
        times = [1_000 * turn + 50 * (number // HOT) for number in range(len(words))]
        turns.append(([_batch(harness, words, times, place) for place in (0, 1)], times[-1]))
    return _measured(f"interval join, {backend}", harness, iter(turns))


def timed() -> Iterator[Measured]:
    """Make the paths."""
    total, alone = FieldAggregation(AccumulateType.SUM, 1), OneByOne(AccumulateType.SUM, 1)
    yield _windows("windows, one by one", alone, TumblingEventTimeWindows(10))
    yield _windows("windows by columns", total, TumblingEventTimeWindows(10))
    yield _windows("sessions", total, EventTimeSessionWindows(10))
    yield _windows("sessions, rocksdb", total, EventTimeSessionWindows(10), "rocksdb")
    for backend in ("hashmap", "rocksdb"):
        yield _kept_sessions(backend)
        yield _timers(backend)
        yield _interval_join(backend)
