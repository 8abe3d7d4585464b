"""Failures with two inputs, in BATCH mode, and of functions with list state: kept, replayed, written as tests."""

from __future__ import annotations

import functools
import json

import pytest

from pystate.core.snapshot.operator_state import OperatorState
from pystate.runtime.plan.task import JobEnvironment
from pystate.testing import Program
from pystate.testing import harness as harness_module
from pystate.testing.debug_process import replay
from tests.testing.test_failing_timers import CLOCK, END, EPOCH, SECOND, WATERMARK, kept_of, replayed, savepoint_with
from tests.testing.test_program_harness import request_of

JOB = """
from pystate.common import Types
from pystate.datastream import CheckpointedFunction, StreamExecutionEnvironment
from pystate.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction
from pystate.datastream.state import ListStateDescriptor, ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Match(KeyedCoProcessFunction):
    def open(self, ctx):
        self.asked = ctx.get_state(ValueStateDescriptor("asked", Types.LONG()))
        self.told = ctx.get_state(ValueStateDescriptor("told", Types.LONG()))

    def process_element1(self, value, ctx):
        self.asked.update(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def process_element2(self, value, ctx):
        self.told.update(value[1])
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 50)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), 100 // self.told.value(), self.asked.value(), ctx.time_domain().name


class Seen(KeyedProcessFunction, CheckpointedFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def initialize_state(self, context):
        self.list = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.STRING()))
        self.seen = list(self.list.get())

    def snapshot_state(self, context):
        self.list.update(self.seen)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], 100 // value[1], self.count.value(), sorted(self.seen)
        self.seen.append(value[0])


env = StreamExecutionEnvironment.get_execution_environment()
asked = env.from_collection([("a", 1)], type_info=PAIR).key_by(lambda v: v[0], key_type=Types.STRING())
told = env.from_collection([("a", 1)], type_info=PAIR).key_by(lambda v: v[0], key_type=Types.STRING())
asked.connect(told).process(Match()).uid("match").print()
asked.process(Seen()).uid("seen").print()
env.execute("connected")
"""
TOLD = (SECOND, (("a", 0), 2))
MENDED = JOB.replace("100 // self.told.value()", "100")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "connected.py"
    path.write_text(JOB)
    return path


def test_a_timer_of_an_operator_with_two_inputs(job, tmp_path, capsys):
    record = kept_of(
        Program(job), "match",
        ("a", (4, 1)), ("b", (5, 1)), (EPOCH, 0), (SECOND, (("a", 0), 2)), ("a", (6, 3)), (WATERMARK, 20),
    )  # fmt: skip
    assert record.timer == ("EVENT_TIME", 11)

    said = replayed(job, tmp_path, record, capsys, MENDED)

    assert (said["key"], said["timer"], said["watermark"]) == ("'a'", ["event time 11"], "20")
    assert said["state"] == ["asked = 6", "told = 0"]


def test_a_processing_time_timer_of_an_operator_with_two_inputs(job, tmp_path, capsys):
    record = kept_of(Program(job), "match", (CLOCK, 7), (SECOND, (("a", 0), 2)), ("a", (6, 3)), (CLOCK, 60))
    said = replayed(job, tmp_path, record, capsys, MENDED)
    assert (said["timer"], said["clock"]) == (["processing time 57"], "60")


@pytest.mark.parametrize(
    "steps", [[("a", (6, 3)), (SECOND, (("a", 0), 2))], [(SECOND, (("a", 0), 2))]], ids=["event time", "processing time"]
)
@pytest.mark.parametrize("ends", ["another key", "the input"])
def test_timers_at_the_end_of_a_key_in_batch_mode(job, tmp_path, capsys, monkeypatch, steps, ends):
    with monkeypatch.context() as batch:
        batch.setattr(harness_module, "JobEnvironment", functools.partial(JobEnvironment, batch=True))
        end = (SECOND, (("b", 1), 3)) if ends == "another key" else (END, 0)
        record = kept_of(Program(job), "match", *steps, end)
    said = replayed(job, tmp_path, record, capsys, MENDED)
    assert said["key"] == "'a'"
    assert said["state"][-1] == "told = 0"


def savepoint_of(job, tmp_path):
    """Return a savepoint of two subtasks of the operator with list state, and a key of each."""
    program, keys, subtasks = Program(job), [], {}
    for index in range(2):
        with program.harness("seen", share=(index, 2, 128)) as harness:
            key = next(f"key-{number}" for number in range(99) if harness.owns_key(f"key-{number}"))
            keys.append(key)
            harness.process((key, 1), 1)
            subtasks[index] = harness.snapshot(1).written
    return savepoint_with(OperatorState("seen", "seen", 2, 128, subtasks=subtasks), tmp_path), keys


def test_list_state_is_that_of_the_keys_subtask(job, tmp_path, capsys):
    savepoint, keys = savepoint_of(job, tmp_path)
    for key in keys:
        test = tmp_path / f"test_{key.replace('-', '_')}.py"
        request = request_of(
            job, record=f"({key!r}, 5)", operator="seen", savepoint_path=savepoint, json=True, as_test=str(test)
        )
        assert replay(request) == 0
        assert json.loads(capsys.readouterr().out)["result"] == [f"({key!r}, 20, 2, [{key!r}])"], "its own, not the other's"
        names = {"__file__": str(test), "__name__": test.stem}
        exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
        names["test_seen_takes_the_record"]()


def test_a_kept_record_says_that_list_state_is_not_kept(job, tmp_path, capsys):
    record = kept_of(Program(job), "seen", ("a", (4, 1)), (EPOCH, 0), ("a", (0, 2)))
    said = replayed(job, tmp_path, record, capsys, JOB.replace("100 // value[1]", "100"))
    assert said["note"] == "list state of the operator isn't kept, and is empty here: -s takes it from a snapshot"
