"""Records a second from Kafka to Kafka, beside Spark's own query that does the same.

    python benchmarks/kafka.py [--records N] [--rounds N]

A broker of its own on loopback (`make servers`), one topic of four partitions with N records of 100 bytes, read from its
beginning to its end by a query that is told to end there; parallelism 2, no checkpoints but the end's. *Spark*: its
connector reads and writes, nothing in between. *pystate*: `KafkaSource`, and `KafkaSink` at-least-once and exactly-once;
then the same with a keyed count in between. Seconds are those of the whole job, its start (slots, query) and its end among
them; the sides take turns. *empty*: the same jobs over a topic with one record, which is what start and end cost.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.home import PystateHome
from pystate.common.serialization import SimpleStringSchema
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors import DeliveryGuarantee
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.executor import register_executor
from pystate.driver.embedded import LocalExecutor
from pystate.spark.session import create_session
from tests.servers.kafka_broker import running_broker, spark_jars

PARTITIONS = 4
PARALLELISM = 2
KEYS = 1000
SIZE = 100


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


def job(kafka, session, folder, source, target, guarantee, keyed):
    class Embedded(LocalExecutor):
        def __init__(self):
            options = {
                "parallelism.default": str(PARALLELISM),
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "pystate.source.max-rows-per-epoch": "1000000",
            }
            super().__init__(Configuration(options), PystateHome(folder / "home"))
            self._session = session

    records = KafkaRecordSerializationSchema.builder().set_topic(target).set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    sink = sink.set_record_serializer(records.build()).build()
    reading = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(source)
    reading = reading.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(SimpleStringSchema()).build()
    register_executor(Embedded())
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_source(reading, None, "in")
        if keyed:
            stream = stream.key_by(lambda text: text[:8], key_type=Types.STRING()).process(Count(), Types.STRING())
        stream.sink_to(sink)
        env.execute()
    finally:
        register_executor(None)


def spark_query(kafka, session, folder, source, target):
    frame = session.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("subscribe", source)
    frame = frame.option("startingOffsets", "earliest").load().select("key", "value")
    writing = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", target)
    query = writing.option("checkpointLocation", str(folder / f"spark-{target}")).trigger(availableNow=True).start()
    query.awaitTermination()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-benchmark-") as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        options = {"pystate.spark.master": "local[8,4]", "spark.jars": ",".join(spark_jars())}
        with running_broker(folder / "broker") as kafka:
            session = create_session(Configuration(options), "benchmark", folder / "spark.log")
            full, empty = kafka.new_topic(PARTITIONS), kafka.new_topic(PARTITIONS)
            padding = "x" * (SIZE - 9)
            kafka.send(full, [(None, f"{number % KEYS:08} {padding}") for number in range(arguments.records)])
            kafka.send(empty, [(None, f"{0:08}")])
            at_least, exactly = DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE
            sides = {
                "Spark's identity query": lambda *topics: spark_query(kafka, session, folder, *topics),
                "pystate identity, at-least-once": lambda *topics: job(kafka, session, folder, *topics, at_least, False),
                "pystate identity, exactly-once": lambda *topics: job(kafka, session, folder, *topics, exactly, False),
                "pystate keyed count, at-least-once": lambda *topics: job(kafka, session, folder, *topics, at_least, True),
                "pystate keyed count, exactly-once": lambda *topics: job(kafka, session, folder, *topics, exactly, True),
            }
            best = {}
            for _ in range(arguments.rounds):
                for side, run in sides.items():
                    for kind, source, expected in (("empty", empty, 1), ("full", full, arguments.records)):
                        target = kafka.new_topic(PARTITIONS)
                        started = time.perf_counter()
                        run(source, target)
                        seconds = time.perf_counter() - started
                        written = len(kafka.read(target))
                        assert written == expected, f"{side}: {written} of {expected} records"
                        best[side, kind] = min(best.get((side, kind), seconds), seconds)
            session.stop()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {arguments.records} records")
    print("\n| job | s | s empty | records/s | records/s without start and end |\n|---|---|---|---|---|")
    for side in sides:
        whole, nothing = best[side, "full"], best[side, "empty"]
        rates = f"{arguments.records / whole:,.0f} | {arguments.records / (whole - nothing):,.0f}"
        print(f"| {side} | {whole:.1f} | {nothing:.1f} | {rates} |")


if __name__ == "__main__":
    main()
