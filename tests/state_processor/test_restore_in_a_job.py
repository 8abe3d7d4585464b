"""A savepoint that was written from a DataFrame starts a job."""

from __future__ import annotations

import pytest

from pystate.common.type_info import Types
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pystate.state_processor import OperatorTransformation, SavepointReader, SavepointWriter

COUNT = ValueStateDescriptor("count", Types.LONG())


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


@pytest.mark.slow  # two jobs and four reads
def test_bootstrap_run_savepoint_and_read_again(spark, run_job, tmp_path):
    history = spark.createDataFrame([("a", 100), ("b", 200), ("old", 7)], "word string, count long")
    states = OperatorTransformation.states_from_frame(history, "word", {"count": (COUNT, "count")})
    path = (
        SavepointWriter.new_savepoint(spark, 32)
        .with_operator("count", states, name="Count", parallelism=3)
        .write(str(tmp_path / "bootstrapped"))
    )
    results = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(["a", "b", "a", "new"], type_info=Types.STRING())
        counts = words.key_by(lambda word: word, key_type=Types.STRING()).process(
            Count(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()])
        )
        counts.uid("count").for_each_batch(lambda frame, _: results.extend(tuple(row) for row in frame.collect()))
        env.execute("count")

    options = {"execution.state-recovery.path": path, "state.backend.type": "rocksdb"}
    job = run_job(program, options)
    job.wait_for(lambda: len(results) == 4)
    taken = job.savepoint(tmp_path / "savepoints", cancel=True)
    assert sorted(results) == [("a", 101), ("a", 102), ("b", 201), ("new", 1)]
    assert SnapshotReader(taken).operator("count").max_parallelism == 32
    rows = SavepointReader.read(spark, taken).read_keyed_state("count", "count").collect()
    assert {row.key: row.value for row in rows} == {"a": 102, "b": 201, "old": 7, "new": 1}
