"""The small steps of a stream on real Spark, all in one job: rolling aggregations, projections, partitioners."""

from __future__ import annotations

from collections import defaultdict

from pystate.common import Row, Types
from pystate.datastream import Partitioner, ProcessFunction, StreamExecutionEnvironment

NAMED = Types.ROW_NAMED(["key", "value", "note"], [Types.STRING(), Types.INT(), Types.STRING()])
TRIPLE = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
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


def test_rolling_aggregations_projections_and_partitioners(run_job):
    found = defaultdict(list)

    def collect(name):
        return lambda frame, epoch: found[name].extend(tuple(row) for row in frame.collect())

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        rows = env.from_collection([Row(*element) for element in ELEMENTS], NAMED)
        keyed = rows.key_by(lambda row: row["key"], Types.STRING())
        keyed.sum("value").for_each_batch(collect("sum"))
        keyed.max_by(1).for_each_batch(collect("max_by"))
        tuples = env.from_collection(ELEMENTS, TRIPLE)
        tuples.key_by(lambda element: element[0]).min(1).for_each_batch(collect("min"))
        tuples.project(2, 1).for_each_batch(collect("project"))
        parted = tuples.partition_custom(ByValue(), lambda element: element[1]).process(
            Where(), Types.TUPLE([Types.INT(), Types.INT()])
        )
        parted.set_parallelism(3).for_each_batch(collect("where"))
        again = parted.partition_custom(lambda key, count: count - 1 - key % count, lambda element: element[1])
        again.process(Where(), Types.TUPLE([Types.INT(), Types.INT()])).for_each_batch(collect("again"))
        env.execute("steps")

    run_job(run).result()
    of_key = {name: {key: [row[1:] for row in rows if row[0] == key] for key in "ab"} for name, rows in found.items()}
    assert of_key["sum"] == {"a": [(3, "x"), (4, "x"), (9, "x")], "b": [(7, "y"), (16, "y")]}
    assert of_key["max_by"] == {"a": [(3, "x"), (3, "x"), (5, "w")], "b": [(7, "y"), (9, "v")]}
    assert of_key["min"] == {"a": [(3, "x"), (1, "x"), (1, "x")], "b": [(7, "y"), (7, "y")]}
    assert sorted(found["project"]) == [("v", 9), ("w", 5), ("x", 3), ("y", 7), ("z", 1)]
    assert sorted(found["where"]) == sorted((value % 3, value) for _, value, _ in ELEMENTS)
    assert sorted(found["again"]) == sorted((1 - value % 2, value) for _, value, _ in ELEMENTS)


def test_the_end_of_a_job_is_asked_with_spark_sql(run_job):
    answers = []

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        rows = env.from_collection([Row(*element) for element in ELEMENTS], NAMED)
        frame = rows.key_by(lambda row: row["key"], Types.STRING()).sum("value").to_data_frame()
        answers.append(frame.columns)
        frame.createOrReplaceTempView("sums")
        highest = env.spark.sql("SELECT key, max(value) FROM sums GROUP BY key ORDER BY key")
        answers.extend(tuple(row) for row in highest.collect())

    run_job(run).result()
    assert answers == [["key", "value", "note"], ("a", 9), ("b", 16)]
