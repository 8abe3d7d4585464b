"""Operators that are driven through failures, and savepoints under a new function."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import SnapshotError, StateError
from pystate.core.api.operator_kind import OperatorKind
from pystate.datastream import CheckpointedFunction, KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor
from pystate.testing import (
    Checkpoint,
    Elements,
    EpochEnd,
    EpochFailure,
    JobFailure,
    KeyedOneInputOperatorTestHarness,
    OneInputOperatorTestHarness,
    OperatorSnapshot,
    ProcessingTime,
    Watermark,
    run_steps,
    without_failures,
)
from tests.fixtures import all_kinds


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_processing_time_timer(100)
        ctx.timer_service().register_event_time_timer(50)
        yield value, count, ctx.timer_service().current_processing_time(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp, self.count.value()


class InMemory(Count):
    """Counts in a field that no snapshot has: wrong."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.seen = 0

    def process_element(self, value, ctx):
        self.seen += 1
        yield value, self.seen


class Buffering(CheckpointedFunction):
    """Keeps its state in its own fields, which an epoch can't be rolled back for."""

    def __init__(self):
        self.kept = []

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.STRING()))
        self.kept = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.kept)

    def __call__(self, value):
        self.kept.append(value)
        return list(self.kept)


STEPS = [
    ProcessingTime(3),
    Elements(["a", "b"], [1, 2]),
    Watermark(10),
    Checkpoint(),
    Elements(["a"]),
    EpochFailure(),
    EpochEnd(),
    ProcessingTime(5),
    Elements(["b", "c"]),
    JobFailure(),
    Elements(["c"]),
    Watermark(60),
    EpochFailure(),
    ProcessingTime(100),
    JobFailure(),
    EpochFailure(),
]


def keyed(function=Count, **options):
    return lambda: KeyedOneInputOperatorTestHarness(function(), lambda word: word, Types.STRING(), **options)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_failures_leave_no_trace_in_the_results(backend):
    expected = run_steps(keyed(state_backend=backend), without_failures(STEPS))
    assert run_steps(keyed(state_backend=backend), STEPS) == expected
    assert ("c", 2, 5, 10) in expected
    assert ("timer", 100, 2) in expected


@pytest.mark.parametrize("failure", [EpochFailure(), JobFailure()])
def test_a_function_whose_state_no_snapshot_has_is_found(failure):
    steps = [Elements(["a"]), Checkpoint(), Elements(["a"]), failure]
    assert run_steps(keyed(InMemory), steps) != run_steps(keyed(InMemory), without_failures(steps))


def test_the_job_fails_where_an_epoch_can_not_be_rolled_back():
    def make():
        return OneInputOperatorTestHarness(Buffering(), kind=OperatorKind.MAP)

    steps = [Elements(["a"]), Checkpoint(), Elements(["b"]), EpochEnd(), Elements(["c"]), EpochFailure(), Elements(["d"])]
    assert run_steps(make, steps)[-1] == ["a", "b", "c", "d"]


def test_a_harness_that_is_open_already_is_refused():
    def opened():
        made = keyed()()
        made.open()
        return made

    with pytest.raises(StateError):
        run_steps(opened, [Elements(["a"]), Checkpoint(), JobFailure()])


class NewVersion(KeyedProcessFunction):
    """What the next release of a job makes of a list that the last one has collected."""

    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), list(self.list.get())


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    numbers = all_kinds.numbers_of(["ant", "bee", "cow", "ant"])
    operators = [
        all_kinds.all_kinds_operator("typed", numbers, Types.STRING(), "rocksdb"),
        all_kinds.rules_operator("rules", "hashmap"),
    ]
    return all_kinds.write_savepoint(tmp_path_factory.mktemp("savepoint") / "savepoint-83f146-0123456789ab", operators)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_has_the_state_of_a_savepoint(savepoint, parallelism):
    found = {}
    for index in range(parallelism):
        options = {"parallelism": parallelism, "subtask_index": index, "max_parallelism": all_kinds.MAX_PARALLELISM}
        with keyed(NewVersion, **options)() as harness:
            harness.initialize_state_from_savepoint(savepoint, "typed")
            harness.open()
            harness.process_elements([word for word in ("ant", "bee", "gnu") if harness.owns_key(word)])
            found |= dict(harness.extract_output())
    numbers = all_kinds.by_key(all_kinds.numbers_of(["ant", "bee", "cow", "ant"]))
    assert found == {"ant": [f"#{n}" for n in numbers["ant"]], "bee": [f"#{n}" for n in numbers["bee"]], "gnu": []}


def test_another_number_of_key_groups_is_refused_with_the_right_one(savepoint):
    with keyed(NewVersion)() as harness, pytest.raises(StateError) as refused:
        harness.initialize_state_from_savepoint(savepoint, "typed")
    assert refused.value.hint == "make the harness with max_parallelism=16"


def test_an_operator_that_the_savepoint_does_not_have_is_refused(savepoint):
    with pytest.raises(SnapshotError, match="typo"):
        OperatorSnapshot.from_savepoint(savepoint, "typo")
