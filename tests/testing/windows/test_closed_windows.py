"""What windows of many keys leave when they have closed: no entry, no bytes in snapshots, none in RocksDB's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import BottommostLevelCompaction, CompactOptions

from pystate.common import Types
from pystate.common.time import Time
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.api.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pystate.core.api.window.evictors import CountEvictor
from pystate.core.api.window.triggers import ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.testing import WindowOperatorTestHarness

KEYS = 1_000
EPOCH = 10_000
ELEMENT = Types.TUPLE([Types.LONG(), Types.LONG()])
ms = Time.milliseconds


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Remember(ProcessWindowFunction):
    """Keeps states of the window, of several kinds."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        states = context.window_state()
        states.get_state(ValueStateDescriptor("fired", Types.LONG())).update(1)
        states.get_list_state(ListStateDescriptor("times", Types.LONG())).add(1)
        states.get_map_state(MapStateDescriptor("by", Types.STRING(), Types.LONG())).put("x", 1)
        yield sum(number for _, number in elements)

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        states = context.window_state()
        states.get_state(ValueStateDescriptor("fired", Types.LONG())).clear()
        states.get_list_state(ListStateDescriptor("times", Types.LONG())).clear()
        states.get_map_state(MapStateDescriptor("by", Types.STRING(), Types.LONG())).clear()


class Total(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        yield sum(number for _, number in elements)


AGGREGATE = {"aggregate_function": Sum(), "accumulator_type": Types.LONG()}
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "tumbling": (TumblingEventTimeWindows.of(ms(10)), AGGREGATE),
    "tumbling, a trigger with state": (
        TumblingEventTimeWindows.of(ms(10)),
        {**AGGREGATE, "trigger": ContinuousEventTimeTrigger.of(ms(4))},
    ),
    "tumbling, a counting trigger": (TumblingEventTimeWindows.of(ms(10)), {**AGGREGATE, "trigger": CountTrigger.of(2)}),
    "tumbling, states of the window, lateness": (
        TumblingEventTimeWindows.of(ms(10)),
        {"window_function": Remember(), "allowed_lateness": 20},
    ),
    "tumbling, an evictor": (
        TumblingEventTimeWindows.of(ms(10)),
        {"window_function": Total(), "evictor": CountEvictor.of(1)},
    ),
    "tumbling, by the clock": (TumblingProcessingTimeWindows.of(ms(10)), AGGREGATE),
    "sliding": (SlidingEventTimeWindows.of(ms(10), ms(5)), AGGREGATE),
    "sliding, elements": (SlidingEventTimeWindows.of(ms(10), ms(5)), {"window_function": Remember()}),
    "sessions": (EventTimeSessionWindows.with_gap(ms(5)), AGGREGATE),
    "sessions, a purging trigger": (
        EventTimeSessionWindows.with_gap(ms(5)),
        {**AGGREGATE, "trigger": PurgingTrigger.of(ContinuousEventTimeTrigger.of(ms(4)))},
    ),
}
COUNTS: dict[str, Any] = {"count": CountTumblingWindowAssigner.of(2), "sliding count": CountSlidingWindowAssigner.of(2, 1)}


def fill(harness: WindowOperatorTestHarness) -> None:
    """Put two elements of each key into windows, in epochs."""
    for start in range(0, KEYS, EPOCH):
        keys = range(start, min(start + EPOCH, KEYS))
        for time in (1, 4):
            harness.process_elements([(key, time) for key in keys], [time] * len(keys))
        harness.end_epoch()


def snapshot_bytes(harness: WindowOperatorTestHarness, checkpoint: int) -> int:
    return harness.snapshot(checkpoint).state_size


def file_bytes(harness: WindowOperatorTestHarness, folder: Path) -> int:
    """Return the bytes of RocksDB's table files when all is flushed and compacted."""
    backend = harness._chain.backend
    assert isinstance(backend, RocksDBKeyedStateBackend)
    database = backend._tables.database
    database.link_files(str(folder))  # writes what is in memory to files
    options = CompactOptions()
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force())  # RocksDB rewrites a file of removals later
    for family in database.families().values():
        family.rows.compact_range(None, None, options)
    found = (database.property(family, "rocksdb.live-sst-files-size") for family in database.families().values())
    return sum(int(size or 0) for size in found)


def check(assigner: Any, options: dict[str, Any], backend: str, folder: Path, close: Any, left: int) -> tuple[int, ...]:
    def opened() -> WindowOperatorTestHarness:
        harness = WindowOperatorTestHarness(
            assigner, lambda value: value[0], Types.LONG(), input_type=ELEMENT, state_backend=backend, **options
        )
        harness.open()
        return harness

    with opened() as harness, opened() as small:
        fill(harness)
        small.process_elements([(0, 1), (0, 4)], [1, 4])
        close(small)
        nothing = snapshot_bytes(small, 1)  # it says which states there are
        before = harness.num_keyed_state_entries(), snapshot_bytes(harness, 1)
        files_before = file_bytes(harness, folder / "full") if backend == "rocksdb" else 0
        close(harness)
        harness.end_epoch()
        assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (0, 0)
        after = harness.num_keyed_state_entries(), snapshot_bytes(harness, 2)
        files_after = file_bytes(harness, folder / "closed") if backend == "rocksdb" else 0
        assert len(harness.extract_output()) >= KEYS
    assert before[0] >= KEYS
    assert after[0] == left
    if not left:
        assert after[1] == nothing
        assert nothing < before[1]
        assert files_after == 0
        assert files_before > 0 or backend == "hashmap"
    return (*before, files_before, *after, files_after)


def by_watermark(harness: WindowOperatorTestHarness) -> None:
    harness.process_watermark(100)
    harness.set_processing_time(100)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_closed_window_leaves_nothing(shape: str, backend: str, tmp_path: Path) -> None:
    assigner, options = SHAPES[shape]
    check(assigner, options, backend, tmp_path, by_watermark, 0)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("shape", COUNTS)
def test_of_full_count_windows_the_number_of_elements_is_left(shape: str, backend: str, tmp_path: Path) -> None:
    assigner = COUNTS[shape]
    open_windows = 0 if shape == "count" else 1  # of a sliding one the next window has begun: its value
    check(assigner, AGGREGATE, backend, tmp_path, lambda _: None, KEYS * (1 + 2 * open_windows))
