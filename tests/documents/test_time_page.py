"""docs/time.md and the chapters on windows and timers of docs/snapshot-format.md against the code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.time import Time
from pystate.datastream import KeyedProcessFunction, ProcessWindowFunction
from pystate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
)
from pystate.testing import KeyedOneInputOperatorTestHarness, OperatorTestHarness, WindowOperatorTestHarness

DOCS = Path(__file__).parents[2] / "docs"
TIME = (DOCS / "time.md").read_text("utf-8")
FORMAT = (DOCS / "snapshot-format.md").read_text("utf-8")
CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)(?:\(\))?`")
MODULES = ("pystate.datastream", "pystate.datastream.window", "pystate.datastream.functions")
ELSEWHERE = {"WatermarkStrategy"}  # in pystate.common


def chapter(title: str) -> str:
    return FORMAT.partition(f"\n### {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```", TIME, re.MULTILINE | re.DOTALL))
def test_the_code_of_the_page_compiles(code: str) -> None:
    compile(code, "docs/time.md", "exec")


def test_all_classes_that_the_page_names_are_there() -> None:
    found = {name for module in MODULES for name in importlib.import_module(module).__all__}
    named = set(CLASS.findall(TIME.partition("## Differences")[0]))
    assert len(named) >= 30
    assert named - found == ELSEWHERE


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)


class Sum(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: ProcessWindowFunction.Context[Any], elements: Iterable[Any]) -> Iterator[Any]:
        yield sum(elements)


def harnesses() -> Iterator[OperatorTestHarness]:
    yield KeyedOneInputOperatorTestHarness(Alarm(), abs)
    every = ContinuousEventTimeTrigger.of(Time.seconds(1))
    yield WindowOperatorTestHarness(EventTimeSessionWindows.with_gap(Time.seconds(5)), abs, reduce_function=max)
    yield WindowOperatorTestHarness(SlidingEventTimeWindows(5_000, 1_000), abs, trigger=every, window_function=Sum())
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
    pages = chapter("Timers") + chapter("Windows")
    services = {f"_timer_state/{domain}_{{}}" for domain in ("event", "processing")}
    timers = {name.format(service) for name in services for service in ("user-timers", "window-timers")}
    others = {"window-contents", "merging-window-set", "fire-time", "tumble-count-assigner", "count"}
    assert names == timers | others
    for name in others | {"user-timers", "window-timers", "slide-count-assigner"}:
        assert f"`{name}`" in pages
    for name in services:
        assert name.format("") in pages
