"""Steps of a stream that only Spark can try: partitioners of the program, and the end of a job as a DataFrame."""

from __future__ import annotations

from collections import defaultdict

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from tests.datastream.test_field_steps import ELEMENTS, TRIPLE, WHERE, ByValue, Where
from tests.engines import on_micro_batch, slowly_on_real_time


@slowly_on_real_time
def test_a_partitioner_chooses_sparks_partitions(run_job):
    found = defaultdict(list)

    def collect(name):
        return lambda frame, epoch: found[name].extend(tuple(row) for row in frame.collect())

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        parted = env.from_collection(ELEMENTS, TRIPLE).partition_custom(ByValue(), lambda element: element[1])
        first = parted.process(Where(), WHERE).set_parallelism(3)
        first.for_each_batch(collect("first"))
        second = first.partition_custom(ByValue(), lambda element: element[1] + 1).process(Where(), WHERE)
        second.for_each_batch(collect("second"))
        env.execute("partitioners")

    run_job(run).result()
    assert sorted(found["first"]) == sorted((value % 3, value) for _, value, _ in ELEMENTS)
    assert sorted(found["second"]) == sorted(((value + 1) % 2, value) for _, value, _ in ELEMENTS)


@on_micro_batch
def test_the_end_of_a_job_is_asked_with_spark_sql(run_job):
    answers = []

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        triples = env.from_collection(ELEMENTS, Types.ROW_NAMED(["key", "value", "note"], list(TRIPLE.elements)))
        frame = triples.key_by(lambda row: row["key"], Types.STRING()).sum("value").to_data_frame()
        answers.append(frame.columns)
        frame.createOrReplaceTempView("sums")
        highest = env.spark.sql("SELECT key, max(value) FROM sums GROUP BY key ORDER BY key")
        answers.extend(tuple(row) for row in highest.collect())

    run_job(run).result()
    assert answers == [["key", "value", "note"], ("a", 9), ("b", 16)]
