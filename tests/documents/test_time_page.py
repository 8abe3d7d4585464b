"""docs/time.md and the chapters on windows and timers of docs/snapshot-format.md against the code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.time import Duration, Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.core.api.executor import current_executor, register_executor
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
)
from pystate.testing import (
    KeyedOneInputOperatorTestHarness,
    OperatorTestHarness,
    TwoInputOperatorTestHarness,
    WindowOperatorTestHarness,
)
from tests.fidelity.in_process import InProcessExecutor

DOCS = Path(__file__).parents[2] / "docs"
TIME = (DOCS / "time.md").read_text("utf-8")
FORMAT = (DOCS / "snapshot-format.md").read_text("utf-8")
CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)(?:\(\))?`")
MODULES = ("pystate.datastream", "pystate.datastream.window", "pystate.datastream.functions")
DEFINED = re.compile(r"^class (\w+)", re.MULTILINE)
ELSEWHERE = {"WatermarkStrategy"}  # in pystate.common


def chapter(title: str) -> str:
    return FORMAT.partition(f"\n### {title}\n")[2].partition("\n## ")[0]


CODE = re.findall(r"^```python\n(.*?)^```", TIME, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", CODE)
def test_the_code_of_the_page_compiles(code: str) -> None:
    compile(code, "docs/time.md", "exec")


def test_all_classes_that_the_page_names_are_there() -> None:
    found = {name for module in MODULES for name in importlib.import_module(module).__all__}
    named = set(CLASS.findall(TIME.partition("## Differences")[0]))
    assert len(named) >= 30
    assert named - found - set(DEFINED.findall(TIME)) == ELSEWHERE


class TimeField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value.time
        return time


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)


class Sum(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: ProcessWindowFunction.Context[Any], elements: Iterable[Any]) -> Iterator[Any]:
        yield sum(elements)


class Match(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> None:
        """Emit nothing."""


def harnesses() -> Iterator[OperatorTestHarness]:
    yield KeyedOneInputOperatorTestHarness(Alarm(), abs)
    every = ContinuousEventTimeTrigger.of(Time.seconds(1))
    yield WindowOperatorTestHarness(EventTimeSessionWindows.with_gap(Time.seconds(5)), abs, reduce_function=max)
    yield WindowOperatorTestHarness(SlidingEventTimeWindows(5_000, 1_000), abs, trigger=every, window_function=Sum())
    yield TwoInputOperatorTestHarness(IntervalJoinOperation(0, 5, Match()), abs, abs)
    evicted: dict[str, Any] = {"evictor": CountEvictor.of(1), "input_type": Types.LONG()}
    yield WindowOperatorTestHarness(CountTumblingWindowAssigner.of(2), abs, window_function=Sum(), **evicted)


def test_the_states_of_windows_and_timers_are_named_on_the_page_of_the_format() -> None:
    names: set[str] = set()
    for harness in harnesses():
        with harness:
            harness.open()
            harness._process(0, [1], [7])
            backend = harness._chain.backend
            assert backend is not None
            names |= set(backend.state_names())
    pages = chapter("Timers") + chapter("Windows") + chapter("Joins")
    services = {f"_timer_state/{domain}_{{}}" for domain in ("event", "processing")}
    timers = {name.format(service) for name in services for service in ("user-timers", "window-timers")}
    timers |= {"_timer_state/event_CLEANUP_TIMER", "_timer_state/processing_CLEANUP_TIMER"}
    others = {
        "LEFT_BUFFER",
        "RIGHT_BUFFER",
        "window-contents",
        "merging-window-set",
        "fire-time",
        "tumble-count-assigner",
        "count",
    }
    assert names == timers | others
    for name in others | {"user-timers", "window-timers", "slide-count-assigner"}:
        assert f"`{name}`" in pages
    for name in services:
        assert name.format("") in pages


def test_the_joins_of_the_page_give_what_it_says() -> None:
    second = 1_000
    row = Types.ROW_NAMED(["order", "time"], [Types.STRING(), Types.LONG()])
    elements = {
        "orders": [Row("a", 0), Row("b", 70 * second), Row("c", 80 * second)],
        "payments": [Row("a", 30 * second), Row("b", 60 * second), Row("b", 669 * second), Row("c", 680 * second)],
    }
    found: dict[str, list[str]] = {"paid": [], "per_minute": []}
    before = current_executor()
    register_executor(InProcessExecutor(parallelism=2, rows_per_epoch=1))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1))
        names: dict[str, Any] = {
            **vars(importlib.import_module("pystate.datastream")),
            **vars(importlib.import_module("pystate.datastream.window")),
            "Time": Time,
            "Types": Types,
        }
        for name, rows in elements.items():
            timed = strategy.with_timestamp_assigner(TimeField())
            names[name] = env.from_collection(rows, row).assign_timestamps_and_watermarks(timed)
        (code,) = (code for code in CODE if "interval_join" in code)
        exec(code, names)  # noqa: S102 - our own page
        for name, results in found.items():
            taken = results.extend
            names[name].map(repr, Types.STRING()).for_each_batch(
                lambda frame, epoch, taken=taken: taken(one[0] for one in frame.collect())
            )
        env.execute()
    finally:
        register_executor(before)
    assert sorted(found["paid"]) == ["('a', 30000)", "('b', 599000)"]
    assert sorted(found["per_minute"]) == ["(0, 1)", "(0, 1)", "(1, 0)", "(1, 1)", "(1, 1)"]
