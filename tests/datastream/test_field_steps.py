"""Rolling aggregations, projections and partitioners as whole jobs, in one process without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from pystate.common import Row, Types
from pystate.common.errors import RecordError
from pystate.core.api.executor import register_executor
from pystate.datastream import Partitioner, ProcessFunction, StreamExecutionEnvironment
from tests.fidelity.in_process import InProcessExecutor

NAMED = Types.ROW_NAMED(["key", "value", "note"], [Types.STRING(), Types.INT(), Types.STRING()])
TRIPLE = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
WHERE = Types.TUPLE([Types.INT(), Types.INT()])
ELEMENTS = [("a", 3, "x"), ("b", 7, "y"), ("a", 1, "z"), ("b", 9, "v"), ("a", 5, "w")]


class ByValue(Partitioner):
    def open(self, runtime_context):
        self.opened = True

    def partition(self, key, num_partitions):
        assert self.opened
        return key % num_partitions


class Where(ProcessFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield self.subtask, value[1]


@pytest.fixture
def env() -> Iterator[StreamExecutionEnvironment]:
    register_executor(InProcessExecutor(2))
    yield StreamExecutionEnvironment.get_execution_environment()
    register_executor(None)


def collected(env, streams):
    found = defaultdict(list)

    def collect(name):
        return lambda frame, epoch: found[name].extend(frame.collect())

    for name, stream in streams.items():
        stream.for_each_batch(collect(name))
    env.execute()
    return found


def test_each_key_has_its_own_aggregates(env):
    keyed = env.from_collection([Row(*element) for element in ELEMENTS], NAMED).key_by(lambda row: row["key"])
    by_position = env.from_collection(ELEMENTS, TRIPLE).key_by(lambda element: element[0])
    found = collected(
        env,
        {"sum": keyed.sum("value"), "max_by": keyed.max_by(1), "min": by_position.min(1), "min_by": by_position.min_by(1)},
    )
    of_key = {name: {key: [row[1:] for row in rows if row[0] == key] for key in "ab"} for name, rows in found.items()}
    assert of_key["sum"] == {"a": [(3, "x"), (4, "x"), (9, "x")], "b": [(7, "y"), (16, "y")]}
    assert of_key["max_by"] == {"a": [(3, "x"), (3, "x"), (5, "w")], "b": [(7, "y"), (9, "v")]}
    assert of_key["min"] == {"a": [(3, "x"), (1, "x"), (1, "x")], "b": [(7, "y"), (7, "y")]}
    assert of_key["min_by"] == {"a": [(3, "x"), (1, "z"), (1, "z")], "b": [(7, "y"), (7, "y")]}


def test_a_projection_has_the_fields_in_their_order(env):
    found = collected(env, {"project": env.from_collection(ELEMENTS, TRIPLE).project(2, 1)})
    assert sorted(found["project"]) == [("v", 9), ("w", 5), ("x", 3), ("y", 7), ("z", 1)]


def test_a_partitioner_is_asked_before_tasks_and_after_them(env):
    parted = env.from_collection(ELEMENTS, TRIPLE).partition_custom(ByValue(), lambda element: element[1])
    first = parted.process(Where(), WHERE).set_parallelism(3)
    second = first.partition_custom(ByValue(), lambda element: element[1] + 1).process(Where(), WHERE)
    found = collected(env, {"first": first, "second": second})
    assert sorted(found["first"]) == sorted((value % 3, value) for _, value, _ in ELEMENTS)
    assert sorted(found["second"]) == sorted(((value + 1) % 2, value) for _, value, _ in ELEMENTS)


def test_a_job_whose_partitioner_names_no_subtask_fails(env):
    stream = env.from_collection(ELEMENTS, TRIPLE).partition_custom(lambda key, count: count, lambda element: element[1])
    with pytest.raises(RecordError, match="returned 2 for"):
        collected(env, {"where": stream.process(Where(), WHERE)})
