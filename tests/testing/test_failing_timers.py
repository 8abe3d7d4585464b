"""Timers and windows at which functions fail: what a subtask keeps, the replay, the test that is written, and what-ifs."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pystate.common.errors import UsageError
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.job_folder.failing_record import FailingRecord, keep_failing_record
from pystate.runtime.slot.chain import operator_chain
from pystate.testing import Program
from pystate.testing.debug_process import breakpoints, replay
from tests.testing.test_program_harness import request_of

JOB = """
from pystate.common import Time, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from pystate.datastream.state import (
    AggregatingStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
)
from pystate.datastream.window import (
    CountEvictor, CountTrigger, EventTimeSessionWindows, PurgingTrigger, TumblingEventTimeWindows
)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Timed(KeyedProcessFunction):
    def open(self, ctx):
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), PAIR))

    def process_element(self, value, ctx):
        self.value.update(value[1])
        self.list.add(value[1])
        self.map.put(str(value[1]), value[1])
        self.sum.add(value[1])
        self.mean.add(value[1])
        if value[1] < 0:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 50)
        else:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        # the first statement is the next one
        number = self.value.value()
        yield ctx.get_current_key(), timestamp, 100 // number, list(self.list.get()), self.sum.get(), self.mean.get()


class Divide(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, 100 // sum(element[1] for element in elements)


def reduce(a, b):
    return a[0], a[1] // b[1]


env = StreamExecutionEnvironment.get_execution_environment()
pairs = env.from_collection([("a", 1)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
keyed = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING())
keyed.process(Timed()).uid("timed").print()
tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
keyed.window(tumbling).process(Divide()).uid("windows").print()
keyed.window(tumbling).reduce(reduce).uid("reduced").print()
keyed.window(tumbling).reduce(lambda a, b: (a[0], a[1] + b[1]), Divide()).uid("aligned").print()
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10))).process(Divide()).uid("sessions").print()
counted = keyed.window(tumbling).trigger(PurgingTrigger.of(CountTrigger.of(3))).evictor(CountEvictor.of(2))
counted.process(Divide()).uid("counted").print()
env.execute("timers")
"""
MENDED = JOB.replace("100 // number", "100").replace("100 // sum(element[1] for element in elements)", "len(list(elements))")
EPOCH, WATERMARK, CLOCK, SECOND, END = "epoch", "watermark", "clock", "second input", "end"


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "timers.py"
    path.write_text(JOB)
    return path


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request, monkeypatch):
    made = operator_chain.create_state_backend
    monkeypatch.setattr(operator_chain, "create_state_backend", lambda _, **named: made(request.param, **named))
    return request.param


def kept_of(program, operator, *steps):
    """Return what an operator of a program fails at, with the last of some steps."""
    program._configuration.set_string("pystate.debug.keep-failing-records", "2")
    with program.harness(operator) as harness:
        with pytest.raises(ZeroDivisionError):
            for kind, value in steps:
                if kind == EPOCH:
                    harness.end_epoch()
                elif kind == WATERMARK:
                    for number in range(harness.num_inputs):
                        harness.process_watermark(value, input_number=number + 1)
                elif kind == SECOND:
                    harness.process(*value, input_number=2)
                elif kind == END:
                    harness._chain.advance_watermarks(end_of_input=True)
                elif kind == CLOCK:
                    harness.set_processing_time(value)
                else:
                    harness.process((kind, value[0]), value[1])
        data = harness._chain.failing_record
    return dataclasses.replace(FailingRecord.from_bytes(data, "here"), uid=operator, operator=operator)


def savepoint_with(operator, tmp_path):
    """Write a savepoint with the state of one operator, and return its path."""
    location = SnapshotLocation(f"{tmp_path}/savepoint-abcdef-0123456789ab")
    location.create()
    about = CheckpointMetadata(
        1, CheckpointType.SAVEPOINT, SavepointFormatType.CANONICAL,
        timestamp_ms=0, job_id="", job_name="", epoch=0, parallelism=1, max_parallelism=128, operators=[operator],
    )  # fmt: skip
    location.write_metadata(write_metadata(about))
    return location.uri


def replayed(job, tmp_path, record, capsys, mended=MENDED):
    """Return what is said of a replay; the test that it writes fails as well, and no more once the program is mended."""
    path, test = keep_failing_record(tmp_path, record.to_bytes(), 5), tmp_path / "test_it.py"
    capsys.readouterr()
    code = replay(request_of(job, failure=str(path), json=True, operator=None, record=None, as_test=str(test)))
    said = json.loads(capsys.readouterr().out)
    assert (code, said["raised"].partition(":")[0]) == (1, "ZeroDivisionError")
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
    (written,) = [value for name, value in names.items() if name.startswith("test_")]
    with pytest.raises(ZeroDivisionError):
        written()
    job.write_text(mended)
    written()
    return said


def test_an_event_time_timer_with_the_state_of_all_kinds_that_its_key_had(job, tmp_path, capsys, backend):
    record = kept_of(
        Program(job), "timed",
        ("a", (4, 1)), ("a", (2, 2)), ("b", (0, 2)), (EPOCH, 0), ("a", (0, 3)), ("b", (7, 3)), (WATERMARK, 20),
    )  # fmt: skip
    assert record.timer == ("EVENT_TIME", 11)

    said = replayed(job, tmp_path, record, capsys)

    assert (said["key"], said["timer"], said["watermark"]) == ("'a'", ["event time 11"], "20")
    value, listed, entries, *rest = said["state"]
    assert (value, listed, *rest) == ("value = 0", "list = [4, 2, 0]", "sum = 6", "mean = (6, 3)")
    assert eval(entries.removeprefix("map = ")) == {"4": 4, "2": 2, "0": 0}  # noqa: S307 - ours
    assert said["timers"] == ["event time 11", "event time 12", "event time 13"], "those of the other key are not kept"
    assert "'b'" not in (tmp_path / "test_it.py").read_text()


def test_a_processing_time_timer_and_one_that_has_fired_before_it(job, tmp_path, capsys):
    harness_steps = [("a", (-1, 1)), (CLOCK, 7), (EPOCH, 0), (CLOCK, 30), ("a", (-5, 1)), ("a", (0, 2)), (CLOCK, 60)]
    record = kept_of(Program(job), "timed", *harness_steps)
    assert record.timer == ("PROCESSING_TIME", 50)

    said = replayed(job, tmp_path, record, capsys)

    assert said["timer"] == ["processing time 50"]
    assert said["clock"] == "60"
    assert said["timers"][1:] == ["processing time 50", "processing time 80"]


@pytest.mark.parametrize("operator", ["windows", "sessions", "aligned"])
def test_a_function_of_windows(job, tmp_path, capsys, backend, operator):
    steps = [("a", (5, 1)), ("b", (0, 1)), ("a", (1, 25)), (EPOCH, 0), ("a", (-5, 3)), ("a", (1, 41)), (WATERMARK, 90)]
    record = kept_of(Program(job), operator, *([one for one in steps if one[0] != "b"]))

    said = replayed(job, tmp_path, record, capsys)

    end = 13 if operator == "sessions" else 10
    start = 1 if operator == "sessions" else 0
    window = f"TimeWindow(start={start}, end={end})"
    assert said["timer"] == [f"event time {end - 1}, {window}"]
    assert len(said["timers"]) == 3
    contents = [one for one in said["window"] if "-5" in one or "('a', 0)" in one]
    assert len(contents) == 1
    assert len(said["window"]) == 3


def test_triggers_and_evictors_and_their_state(job, tmp_path, capsys):
    steps = [("a", (5, 1)), ("a", (4, 2)), (EPOCH, 0), ("a", (-4, 3))]
    record = kept_of(Program(job), "counted", *steps)
    assert record.timer is None

    said = replayed(job, tmp_path, record, capsys)

    assert said["record"] == "('a', -4)"
    assert any("TimeWindow(start=0, end=10)" in one and "5" in one for one in said["window"])


def test_a_reduce_function_that_fails_at_an_element(job, tmp_path, capsys, backend):
    record = kept_of(Program(job), "reduced", ("a", (5, 1)), ("b", (5, 1)), (EPOCH, 0), ("a", (5, 15)), ("a", (0, 2)))

    said = replayed(job, tmp_path, record, capsys, JOB.replace("a[1] // b[1]", "a[1]"))

    assert (said["record"], said["timestamp"]) == ("('a', 0)", "2")
    assert [one.partition(" ")[0] for one in said["window"]] == ["TimeWindow(start=0,", "TimeWindow(start=10,"]


def test_a_mended_timer(job, tmp_path, capsys):
    record = kept_of(Program(job), "timed", ("a", (0, 1)), (WATERMARK, 20))
    job.write_text(JOB.replace("100 // number", "7"))
    path = keep_failing_record(tmp_path, record.to_bytes(), 5)
    assert replay(request_of(job, failure=str(path), json=True, operator=None, record=None)) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["note"].startswith("the operator takes all of its records now")
    assert said["timer"] == ["event time 11"]
    assert said["result"] == ["('a', 11, 7, [0], 0, 0.0)"]
    assert "timersAfter" not in said


def test_the_watermark_that_the_epoch_began_with_makes_elements_late_again(job, tmp_path, capsys):
    record = kept_of(Program(job), "reduced", (WATERMARK, 9), (EPOCH, 0), ("a", (5, 1)), ("a", (5, 15)), ("a", (0, 12)))
    said = replayed(job, tmp_path, record, capsys, JOB.replace("a[1] // b[1]", "a[1]"))
    assert (record.watermark, len(said["window"])) == (9, 1)
    assert "process_watermark(9)" in (tmp_path / "test_it.py").read_text()


def test_state_that_is_too_large_is_not_kept_and_that_is_said(job, tmp_path, capsys):
    program = Program(job)
    program._configuration.set_string("pystate.debug.failing-record-size", "2 kb")
    steps = [("a", (number, 1)) for number in range(1, 300)]
    record = kept_of(program, "windows", *steps, (EPOCH, 0), ("a", (-sum(range(1, 300)), 1)), (WATERMARK, 20))
    assert (record.state, record.lost) == (None, "")
    path = keep_failing_record(tmp_path, record.to_bytes(), 5)
    replay(request_of(job, failure=str(path), json=True, operator=None, record=None))
    assert json.loads(capsys.readouterr().out)["note"].startswith("the operator takes all of its records now")


def test_breakpoints_are_in_timers_and_in_functions_of_windows(job):
    program = Program(job)
    lines = JOB.splitlines()
    with program.harness("timed") as harness:
        assert (str(job), 1 + lines.index("        number = self.value.value()")) in list(breakpoints(harness.function))
    with program.harness("aligned") as harness:
        places = [line for _, line in breakpoints(harness.function)]
    assert 1 + next(number for number, line in enumerate(lines) if "yield key, context.window()" in line) in places


def test_a_what_if_on_the_timers_of_a_key_needs_some_that_are_due(job):
    with pytest.raises(UsageError, match="The key 'a' has no timer that is due then; it has none"):
        replay(request_of(job, operator="timed", record=None, key="'a'", watermark=5))


def test_a_what_if_on_the_timers_of_a_key_in_a_savepoint(job, tmp_path, capsys):
    with Program(job).harness("timed") as harness:
        for key, number in (("a", 4), ("b", 0), ("a", 5)):
            harness.process((key, number), number)
        written = harness.snapshot(1).written
    savepoint = savepoint_with(OperatorState("timed", "timed", 1, 128, subtasks={0: written}), tmp_path)
    test = tmp_path / "test_it.py"
    request = request_of(
        job,
        operator="timed",
        record=None,
        key="'a'",
        watermark=14,
        json=True,
        savepoint_path=savepoint,
        as_test=str(test),
    )

    assert replay(request) == 0, "the timer of the other key, which fails, is left out"

    said = json.loads(capsys.readouterr().out)
    assert (said["timer"], said["timers"]) == (["event time 14"], ["event time 14", "event time 15"])
    assert said["result"] == ["('a', 14, 20, [4, 5], 9, 4.5)"]
    assert said["timersAfter"] == ["event time 15"]
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
    names["test_timed_fires_the_timers"]()
