"""Side outputs of all functions that have them, under the public harness."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api.functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.window.assigners import CountTumblingWindowAssigner
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.runtime.slot.operators.one_input import process_handler
from pystate.runtime.slot.operators.operator_output import Output
from pystate.testing import (
    BroadcastOperatorTestHarness,
    KeyedOneInputOperatorTestHarness,
    OneInputOperatorTestHarness,
    TwoInputOperatorTestHarness,
    WindowOperatorTestHarness,
)

SIDE = OutputTag("side", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def split(value: Any) -> Iterator[Any]:
    yield value
    yield SIDE, str(value)
    yield OutputTag("side", Types.STRING()), "made on the way"
    yield OutputTag("nobody reads it"), value
    yield ()


EXPECTED = [7, ()], ["7", "made on the way"]


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        return split(value)


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        ctx.timer_service().register_event_time_timer(5)
        return list(split(value))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield SIDE, f"at {timestamp}"


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        return split(value)

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield SIDE, "second"


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        return split(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        yield SIDE, "rule"


class OfWindow(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        (value,) = elements
        return split(value)


def test_each_function_hands_tagged_values_to_their_side_output_and_nothing_of_them_to_the_main_one() -> None:
    with OneInputOperatorTestHarness(Plain(), side_outputs=[SIDE]) as plain:
        plain.open()
        plain.process_element(7)
        assert (plain.extract_output(), plain.get_side_output(SIDE)) == EXPECTED
        with pytest.raises(StateError, match="doesn't collect the side output"):
            plain.get_side_output(OutputTag("nobody reads it"))
    with KeyedOneInputOperatorTestHarness(Keyed(), lambda value: value, side_outputs=[SIDE]) as keyed:
        keyed.open()
        keyed.process_element(7)
        assert (keyed.extract_output(), keyed.get_side_output(SIDE)) == EXPECTED
        keyed.end_epoch()
        keyed.process_watermark(9)
        assert (keyed.extract_output(), keyed.get_side_output(SIDE)[2:]) == (EXPECTED[0], ["at 5"])
        keyed.roll_back_epoch()
        assert (keyed.extract_output(), keyed.get_side_output(SIDE)) == EXPECTED
        keyed.clear_output()
        assert (keyed.extract_output(), keyed.get_side_output(SIDE)) == ([], [])
    with TwoInputOperatorTestHarness(Both(), side_outputs=[SIDE]) as both:
        both.open()
        both.process_element1(7)
        both.process_element2(7)
        assert (both.extract_output(), both.get_side_output(SIDE)) == (EXPECTED[0], [*EXPECTED[1], "second"])
    with BroadcastOperatorTestHarness(Rules(), [RULES], side_outputs=[SIDE]) as rules:
        rules.open()
        rules.process_broadcast_element(7)
        rules.process_element(7)
        assert (rules.extract_output(), rules.get_side_output(SIDE)) == (EXPECTED[0], ["rule", *EXPECTED[1]])
    assigner = CountTumblingWindowAssigner.of(1)
    with WindowOperatorTestHarness(assigner, abs, window_function=OfWindow(), side_outputs=[SIDE]) as window:
        window.open()
        window.process_element(7)
        assert (window.extract_output(), window.get_side_output(SIDE)) == EXPECTED


def test_functions_without_side_outputs_may_emit_what_looks_like_one() -> None:
    class Tagged(FlatMapFunction):
        def flat_map(self, value: Any) -> Iterator[Any]:
            yield SIDE.tag_id, value

    with OneInputOperatorTestHarness(Tagged()) as harness:
        harness.open()
        harness.process_element(7)
        assert harness.extract_output() == [("side", 7)]


def test_results_are_checked_for_tags_as_soon_as_the_process_has_made_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutputTag, "any_made", False)
    data = pickle.dumps(SIDE)
    looked: list[Any] = []
    collect = Output.collect
    main: list[Any] = []
    side: list[Any] = []
    output = Output(main.append, {"side": side.append})
    monkeypatch.setattr(Output, "collect", lambda self, result: looked.append(result) or collect(self, result))
    handle = process_handler(lambda element: [element], output)
    handle((1, 2))
    assert (looked, main) == ([], [(1, 2)]), "who uses no tags doesn't pay for them"
    tag = pickle.loads(data)  # noqa: S301 - ours
    handle((tag, 1))
    handle((1, tag))
    assert (looked, main, side) == ([(tag, 1), (1, tag)], [(1, 2), (1, tag)], [1])
    assert (tag, hash(tag), tag.type_info) == (SIDE, hash(SIDE), SIDE.type_info)
