"""The contents of windows, read from savepoints that windows of a harness wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import SnapshotError
from pystate.common.time import Time
from pystate.core.api.aggregation import ElementCount
from pystate.core.api.state import ReducingStateDescriptor, ValueStateDescriptor
from pystate.core.api.window.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from pystate.core.api.window.evictors import CountEvictor
from pystate.core.api.window.triggers import ContinuousEventTimeTrigger
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.reading.snapshot_table import select_state, state_table
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.state_processor import SavepointReader, WindowReaderFunction, window_reader
from pystate.testing import WindowOperatorTestHarness
from tests.fixtures import all_kinds
from tests.testing.windows.test_windows import Mean, add

ms = Time.milliseconds
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LIST(Types.LONG()), Types.LIST(Types.LONG())])
ELEMENTS = [("a", 1), ("a", 4), ("b", 7), ("a", 12), ("b", 25)]
SEEN = ValueStateDescriptor("seen", Types.LONG())
OF_KEY = ValueStateDescriptor("of key", Types.LONG())


class Seen(ProcessWindowFunction):
    """Counts how often a window has fired, and how often those of its key have."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Any:
        for store, descriptor in ((context.window_state(), SEEN), (context.global_state(), OF_KEY)):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
        return ()

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        context.window_state().get_state(SEEN).clear()


class Contents(WindowReaderFunction):
    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Any) -> Any:
        window = ctx.window()
        yield key, window.start, window.end, [number for _, number in elements], ctx.registered_event_time_timers()


class Mine(WindowReaderFunction):
    """The states beside the contents."""

    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Any) -> Any:
        fire_time = ctx.trigger_state(ReducingStateDescriptor("fire-time", min, Types.LONG())).get()
        states = ctx.window_state().get_state(SEEN), ctx.global_state().get_state(OF_KEY)
        yield key, ctx.window().start, fire_time, [state.value() or 0 for state in states], []


class LocalFrame:
    """What a DataFrame would hold: the tasks run here."""

    def __init__(self, items: Iterable[Any], read: Any) -> None:
        self._items = list(items)
        self._read = read

    def collect(self) -> list[Any]:
        return [tuple(row.values()) for item in self._items for batch in self._read(item) for row in batch.to_pylist()]


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return what stands for a session; the tasks run without one."""
    monkeypatch.setattr(window_reader, "tasks_of", lambda _spark: 2)
    monkeypatch.setattr(window_reader, "frame_of", lambda _spark, items, _schema, read: LocalFrame(items, read))
    return object()


def savepoint(spark: Any, path: Any, assigner: WindowAssigner, watermark: int = -1, **options: Any) -> SavepointReader:
    """Put the elements into windows, and write what they keep."""
    harness = WindowOperatorTestHarness(
        assigner, lambda value: value[0], Types.STRING(), input_type=PAIR, max_parallelism=8, **options
    )
    with harness:
        harness.open()
        harness.process_elements(ELEMENTS, [time for _, time in ELEMENTS])
        harness.process_watermark(watermark)
        written = harness.snapshot(1).written
    assert written is not None
    operator = OperatorState("w", "Windows", 1, 8, Types.STRING().to_plain(), KEY_ENCODING, {0: written})
    return SavepointReader.read(spark, all_kinds.write_savepoint(path / "savepoint", [operator]))


def rows(frame: Any) -> list[Any]:
    return sorted(tuple(list(cell) if isinstance(cell, list) else cell for cell in row) for row in frame.collect())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_elements_of_sliding_windows(local: None, tmp_path: Any, backend: str) -> None:
    assigner = SlidingEventTimeWindows.of(ms(10), ms(5))
    read = savepoint(local, tmp_path, assigner, state_backend=backend, window_function=Seen(), watermark=4)
    assert rows(read.window(assigner).process("w", Contents(), output_type=ROW)) == [
        ("a", 0, 10, [1, 4], [9]),
        ("a", 5, 15, [12], [14]),
        ("a", 10, 20, [12], [19]),
        ("b", 0, 10, [7], [9]),
        ("b", 5, 15, [7], [14]),
        ("b", 20, 30, [25], [29]),
        ("b", 25, 35, [25], [34]),
    ]


def test_a_session_has_the_bounds_it_has_grown_to(spark: Any, tmp_path: Any) -> None:
    assigner = EventTimeSessionWindows.with_gap(ms(5))
    read = savepoint(spark, tmp_path, assigner, reduce_function=add)
    assert rows(read.window(assigner).reduce("w", add, Contents(), output_type=ROW)) == [
        ("a", 1, 9, [5], [8]),
        ("a", 12, 17, [12], [16]),
        ("b", 7, 12, [7], [11]),
        ("b", 25, 30, [25], [29]),
    ]
    assert rows(read.window(assigner).reduce("w", add)) == [("a", 5), ("a", 12), ("b", 7), ("b", 25)]
    with pytest.raises(SnapshotError, match="keep REDUCING state, not LIST"):
        read.window(assigner).process("w", Contents(), output_type=ROW)


@pytest.mark.parametrize("key", [None, "a"])
def test_the_command_shows_sessions_by_their_bounds(local: None, tmp_path: Any, key: str | None) -> None:
    savepoint(local, tmp_path, EventTimeSessionWindows.with_gap(ms(5)), reduce_function=add)
    table = state_table(select_state(SnapshotReader(str(tmp_path / "savepoint")), "w", WINDOW_CONTENTS, key))
    assert table.columns == ("key", "key_group", "namespace", "value")
    found = sorted((row[0], *row[2:]) for row in table.rows)
    assert found == [
        ("a", (1, 9), ("a", 5)),
        ("a", (12, 17), ("a", 12)),
        *([] if key else [("b", (7, 12), ("b", 7)), ("b", (25, 30), ("b", 25))]),
    ]


def test_the_result_of_an_aggregate(local: None, tmp_path: Any) -> None:
    assigner = TumblingEventTimeWindows.of(ms(10))
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    read = savepoint(local, tmp_path, assigner, aggregate_function=Mean(), accumulator_type=accumulator)
    frame = read.window(assigner).aggregate("w", Mean(), output_type=Types.DOUBLE())
    assert rows(frame) == [(2.5,), (7.0,), (12.0,), (25.0,)]
    with pytest.raises(SnapshotError, match="needs a type"):
        read.window(assigner).aggregate("w", Mean())


def test_windows_with_an_evictor_and_their_other_states(local: None, tmp_path: Any) -> None:
    assigner = TumblingEventTimeWindows.of(ms(10))
    options = {"window_function": Seen(), "evictor": CountEvictor.of(5), "trigger": ContinuousEventTimeTrigger.of(ms(4))}
    read = savepoint(local, tmp_path, assigner, watermark=4, **options).window(assigner).evictor()
    assert rows(read.reduce("w", add, output_type=PAIR)) == [("a", 5), ("a", 12), ("b", 7), ("b", 25)]
    assert rows(read.process("w", Mine(), output_type=ROW)) == [
        ("a", 0, 8, [1, 1], []),
        ("a", 10, 16, [0, 1], []),
        ("b", 0, 8, [0, 0], []),
        ("b", 20, 28, [0, 0], []),
    ]


class Counted(WindowReaderFunction):
    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Any) -> Any:
        window = ctx.window()
        yield key, window.start, window.end, list(elements), ctx.registered_event_time_timers()


OPEN = [
    ("a", -5, 15, [3], [14]),
    ("a", 0, 20, [3], [19]),
    ("a", 5, 25, [1], [24]),
    ("a", 10, 30, [1], [29]),
    ("b", -5, 15, [1], [14]),
    ("b", 0, 20, [1], [19]),
    ("b", 5, 25, [1], [24]),
    ("b", 10, 30, [1], [29]),
    ("b", 15, 35, [1], [34]),
    ("b", 20, 40, [1], [39]),
    ("b", 25, 45, [1], [44]),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_that_share_panes_are_read_as_windows(local: None, tmp_path: Any, backend: str) -> None:
    assigner = SlidingEventTimeWindows.of(ms(20), ms(5))
    counted = {"aggregate_function": ElementCount(), "accumulator_type": Types.LONG()}
    read = savepoint(local, tmp_path, assigner, state_backend=backend, watermark=9, **counted)
    frame = read.window(assigner).aggregate("w", ElementCount(), Counted(), output_type=ROW)
    assert rows(frame) == OPEN
    for key in (None, "b"):
        table = state_table(select_state(SnapshotReader(str(tmp_path / "savepoint")), "w", WINDOW_CONTENTS, key))
        assert table.columns == ("key", "key_group", "namespace", "value")
        found = sorted((row[0], *row[2], [row[3]]) for row in table.rows)
        assert found == [one[:4] for one in OPEN if key in (None, one[0])]
