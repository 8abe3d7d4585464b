"""Runs that are recorded in a file, and replayed."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pytest

from pystate.common import Instant, Row, Types
from pystate.common.errors import StateError
from pystate.common.row import RowKind
from pystate.datastream import KeyedProcessFunction, OutputTag, ValueStateDescriptor
from pystate.testing import GoldenRun, KeyedOneInputOperatorTestHarness, TwoInputOperatorTestHarness
from pystate.testing.exact_json import from_json, to_json
from tests.testing.test_operator_kinds import Join

LATE = OutputTag("seldom", Types.STRING())


class Count(KeyedProcessFunction):
    STEP = 1

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + self.STEP
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(1000)
        if count == 1:
            yield LATE, value
        yield value, count, Decimal("0.10")

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, None


class CountByTwo(Count):
    STEP = 2


def harness(function=Count):
    made = KeyedOneInputOperatorTestHarness(function(), lambda word: word, Types.STRING(), side_outputs=[LATE])
    made.open()
    return made


@pytest.fixture
def path(tmp_path):
    with harness() as recorded:
        recording = recorded.record()
        recorded.process_elements(["a", "b"], [1, None])
        recorded.end_epoch()
        recorded.process_element("a")
        recorded.roll_back_epoch()
        recorded.process_element("a")
        recorded.set_processing_time(7)
        recorded.process_watermark(1000)
        recording.write(tmp_path / "count.json")
    return tmp_path / "count.json"


def test_a_run_is_a_file_with_a_line_for_each_step_and_result(path):
    lines = path.read_text("utf-8").splitlines()
    assert '  {"elements": ["a", "b"], "timestamps": [1, null]},' in lines
    assert '  {"epoch": "ends"},' in lines
    assert '  {"watermark": 1000}' in lines
    assert '  {"$tuple": ["a", 2, {"$decimal": "0.10"}]},' in lines
    plain = json.loads(path.read_text("utf-8"))
    assert plain["results"]["seldom"] == ["a", "b"]
    assert [step for step in plain["steps"] if "elements" in step][1:] == [{"elements": ["a"]}]  # none of the rolled back


def test_the_same_function_passes_and_another_is_told_with_the_first_difference(path):
    with harness() as same:
        GoldenRun.read(path).check(same)
    with harness(CountByTwo) as other, pytest.raises(AssertionError, match="Result 0 is .'a', 2, .*recorded was .'a', 1, "):
        GoldenRun.read(path).check(other)


def test_a_result_that_is_missing_or_too_many_is_told(path):
    text = path.read_text("utf-8")
    path.write_text(text.replace('  "a",\n  "b"\n', '  "a"\n'), "utf-8")
    with (
        harness() as same,
        pytest.raises(AssertionError, match="Result 1 of the side output 'seldom' is 'b'; recorded was missing"),
    ):
        GoldenRun.read(path).check(same)


def test_what_another_function_makes_of_a_run_can_be_the_new_recording(path):
    with harness(CountByTwo) as other:
        GoldenRun.read(path).replay(other).write(path)
    with harness(CountByTwo) as other:
        GoldenRun.read(path).check(other)


def test_both_inputs_are_recorded(tmp_path):
    def joined():
        made = TwoInputOperatorTestHarness(Join(), lambda pair: pair[0], lambda pair: pair[0], Types.STRING())
        made.open()
        return made

    with joined() as recorded:
        recording = recorded.record()
        recorded.process_element1(("a", "1"))
        recorded.process_element2(("a", "2"))
        recording.write(tmp_path / "join.json")
    with joined() as other:
        GoldenRun.read(tmp_path / "join.json").check(other)


def test_a_recording_begins_before_the_first_element_and_keeps_its_results():
    with harness() as used:
        used.process_element("a")
        with pytest.raises(StateError, match="before the first element"):
            used.record()
    with harness() as used:
        used.record()
        with pytest.raises(StateError, match="can't be forgotten"):
            used.clear_output()


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', '{"format": 1, "steps": [{"x": 1}], "results": {}}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "odd.json").write_text(text, "utf-8")
    with pytest.raises(StateError, match=r"No golden run can be read from .*odd\.json"):
        GoldenRun.read(tmp_path / "odd.json")


VALUES = [
    None,
    True,
    -(2**70),
    "ä",
    1.5,
    [1, [2]],
    (1, ("a", [None])),
    {"a": (1,)},
    {"$row": 1},
    {1: "a", (2, 3): "b"},
    b"\x00\xff",
    Decimal("1.20"),
    dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - that of SQL_TIMESTAMP
    dt.date(2024, 2, 29),
    dt.time(1, 2, 3),
    Instant(5, 6),
    Row("a", (1,)),
    Row(word="a", count=Row(1)),
    Row.of_kind(RowKind.DELETE, 1),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_kept_exactly(value):
    read = from_json(json.loads(json.dumps(to_json(value))))
    assert read == value
    assert repr(read) == repr(value)


def test_numbers_that_json_does_not_have():
    assert math.isnan(from_json(to_json(math.nan)))
    assert from_json(to_json(-math.inf)) == -math.inf


def test_objects_are_refused():
    with pytest.raises(StateError, match="can't hold"):
        to_json([object()])
