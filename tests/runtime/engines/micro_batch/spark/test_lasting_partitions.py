"""Lasting partitions of a source: which sources have them, and how far a Spark task says that each of them is."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.connectors.kafka.spark.kafka_format import KafkaFormat
from pystate.core.api.operator_kind import OperatorKind
from pystate.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.window import TumblingEventTimeWindows
from pystate.runtime.engines.micro_batch.spark.lasting_partitions import partition_columns
from pystate.runtime.engines.micro_batch.spark.level import Level, Port
from pystate.runtime.engines.micro_batch.spark.source_stage import SourceStage, SourceStageSpec
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing
from pystate.runtime.slot.chain.watermark_rows import watermark_rows
from tests.faults.workload import Sink
from tests.waiting import LONGEST_S

RECORDS = Types.ROW_NAMED(["topic", "partition", "time"], [Types.STRING(), Types.INT(), Types.LONG()])
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
COLUMNS = ("topic", "partition")
EPOCHS = 4


class ByTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["time"]


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(9)).with_timestamp_assigner(ByTime())


def stage(columns):
    """A source's stage with an assigner and an edge with times after it."""
    edge = OutputSpec(0, OutputKind.EDGE, "on", RECORDS, target="next", timestamped=True, assigners=frozenset({"times"}))
    node = ChainNode(OperatorSpec("times", "times", OperatorKind.ASSIGN_TIMESTAMPS, STRATEGY), outputs=[edge])
    source = TaskSpec("source", "s", "c" * 32, 1, 16, [TaskInput(RECORDS, partitioned_by=columns)], chain=Chain([node]))
    follower = TaskSpec("next", "next", "d" * 32, 1, 16, [TaskInput(RECORDS, timestamped=True)])
    ports = Port(follower, 0, Routing.FORWARD, edge), Port(follower, 0, Routing.WATERMARK, edge.watermarks())
    level = Level((follower,), ports)
    made = SourceStage(SourceStageSpec(source, JobEnvironment("b" * 32, "job", 0, {}, "hashmap", 1 << 20, ""), level))
    made.open(0)

    def run(*rows):
        batches = [pa.RecordBatch.from_pylist([dict(zip(RECORDS.names, row, strict=True)) for row in part]) for part in rows]
        told, count = {}, 0
        for batch in made.run(0, iter(batches)):
            for port, unwrapped in level.unwrap(batch.append_column("__pystate_key_group", pa.nulls(batch.num_rows))):
                count += unwrapped.num_rows * (port == 0)
                told.update({channel: watermark for channel, watermark, _ in watermark_rows(unwrapped)} if port else {})
        return told, count

    return run


def test_each_partition_says_how_far_it_is_also_where_one_spark_task_reads_several():
    run = stage(COLUMNS)
    rows = [("a", 0, 100), ("a", 0, 110), ("a", 1, 30)], [("a", 0, 105), ("b", 0, 40), ("a", 1, 35)]
    assert run(*rows) == ({"source/0/a:0": 100, "source/0/a:1": 25, "source/0/b:0": 30}, 6)
    assert run([("a", 1, 20)]) == ({"source/0/a:1": 10}, 1), "what other Spark tasks have read is forgotten"
    assert run() == ({}, 0)


def test_a_source_without_lasting_partitions_is_one_channel():
    run = stage(())
    assert run([("a", 0, 100), ("a", 1, 30)]) == ({"source/0": 90}, 2)


class Part(InputPartition):
    def __init__(self, epoch, number):
        self.epoch = epoch
        self.number = number


class Reader(DataSourceStreamReader):
    """Four epochs of two partitions, the second of which is a hundred seconds after the first."""

    def __init__(self):
        self.epoch = 0

    def initialOffset(self):  # noqa: N802 - Spark's name
        return {"epoch": 0}

    def latestOffset(self):  # noqa: N802 - Spark's name
        self.epoch = min(EPOCHS, self.epoch + 1)
        return {"epoch": self.epoch}

    def partitions(self, start, end):
        return [Part(epoch, number) for epoch in range(start["epoch"], end["epoch"]) for number in (0, 1)]

    def read(self, partition):
        for second in range(5):
            yield "topic", partition.number, 100_000 * (1 - partition.number) + partition.epoch * 5_000 + second * 1_000


class Kept(DataSource):
    """Stands in for Spark's reader of Kafka, whose name is taken even where it isn't there."""

    @classmethod
    def name(cls):
        return "pystate_kept"

    def schema(self):
        return "topic STRING, partition INT, time LONG"

    def streamReader(self, schema):  # noqa: N802 - Spark's name
        return Reader()


@pytest.fixture
def records(spark, monkeypatch):
    monkeypatch.setattr(KafkaFormat, "names", (Kept.name(),))
    spark.dataSource.register(Kept)
    return spark.readStream.format(Kept.name()).load()


def test_a_source_has_lasting_partitions_if_it_hands_their_columns_on_as_they_are(spark, records):
    assert partition_columns(records) == COLUMNS
    chosen = records.filter("time > 0").select("partition", "topic", F.col("time").alias("when"))
    assert partition_columns(chosen) == COLUMNS
    assert partition_columns(records.select("topic", "time")) == ()
    assert partition_columns(records.withColumn("partition", F.lit(1))) == ()
    assert partition_columns(records.union(records)) == ()
    other = spark.readStream.format("rate").load().selectExpr("'t' AS topic", "1 AS partition")
    assert partition_columns(other) == ()


class Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(1 for _ in elements)


@pytest.mark.slow
def test_no_element_of_a_partition_that_lags_behind_is_late(run_job, records, tmp_path):
    sink = Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        rows = env.from_data_frame(records, "records", event_time="time")
        keyed = rows.key_by(lambda row: str(row["partition"]), Types.STRING())
        windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(2)))
        windows.process(Count(), COUNTED).uid("count").for_each_batch(sink)
        env.execute("partitions")

    times = [(partition, 100_000 * (1 - partition) + 1_000 * second) for partition in (0, 1) for second in range(5 * EPOCHS)]
    counts = Counter((str(partition), time // 2_000 * 2_000) for partition, time in times)
    job = run_job(program)
    job.wait_for(lambda: ("1", 16_000, 2) in sink.rows)
    assert {row[0] for row in sink.rows} == {"1"}, "the first one waits for the second one"
    job.master.savepoint(str(tmp_path / "drained"), stop=True, cancel=False, drain=True).result(LONGEST_S)
    job.result()
    assert sink.rows == Counter({(*window, count): 1 for window, count in counts.items()})
