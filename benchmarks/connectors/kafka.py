"""Records a second from Kafka to Kafka, beside Spark's own query that does the same; and from record to visible.

    python benchmarks/connectors/kafka.py [--records N] [--rounds N] [--seconds N]

A broker of its own on loopback (`make servers`), one topic of four partitions with N records of 100 bytes, read from its
beginning to its end by a query that is told to end there; parallelism 2, a checkpoint each second. *Spark*: its connector
reads and writes, nothing in between. *pystate*: `KafkaSource`, and `KafkaSink` at-least-once and exactly-once; then the same
with a keyed count in between; on the micro-batch engine, and on the real-time engine, which reads in slots. Seconds are
those of the whole job, its start (slots, query) and its end among them; the sides of an engine take turns. Each engine has
a session of its own, as jobs have: the other one's buffers are as small as latency wants them. *empty*: the same jobs over a
topic with one record, which is what start and end cost.

From record to visible: one record each 20 ms for N seconds goes through the identity job, and is looked for by a
`read_committed` reader; counted from the moment it is written to the first topic. Those of the job's first 5 s are left out.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[2]))

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.common.serialization import SimpleStringSchema
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors import DeliveryGuarantee
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.spark.sessions.session import create_session
from tests.servers.kafka_broker import running_broker, spark_jars

PARTITIONS = 4
PARALLELISM = 2
KEYS = 1000
SIZE = 100
INTERVALS_S = (0.5, 1.0, 2.0, 5.0)
ENGINES = ("micro-batch", "real-time")


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


def environment(kafka, session, folder, source, target, guarantee, keyed, engine, *, interval_s=1.0, bounded=True):
    """Return what runs a job, with the job in it."""

    class Embedded(LocalExecutor):
        def __init__(self):
            options = {
                "execution.engine": engine,
                "parallelism.default": str(PARALLELISM),
                "execution.checkpointing.interval": f"{interval_s * 1000:.0f} ms",
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "pystate.source.max-rows-per-epoch": "1000000",
            }
            super().__init__(Configuration(options), PystateHome(folder / "home"))
            self._session = session

    records = KafkaRecordSerializationSchema.builder().set_topic(target).set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    sink = sink.set_record_serializer(records.build()).build()
    reading = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(source)
    if bounded:
        reading = reading.set_bounded(KafkaOffsetsInitializer.latest())
    register_executor(Embedded())
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(reading.set_value_only_deserializer(SimpleStringSchema()).build(), None, "in").uid("in")
    if keyed:
        stream = stream.key_by(lambda text: text[:8], key_type=Types.STRING()).process(Count(), Types.STRING()).uid("count")
    stream.sink_to(sink).uid("out")
    return env


def job(*arguments):
    try:
        environment(*arguments).execute()
    finally:
        register_executor(None)


def delays(kafka, session, folder, guarantee, engine, interval_s, seconds):
    """Return how long records took to be seen, s."""
    source, target = kafka.new_topic(PARTITIONS), kafka.new_topic(PARTITIONS)
    env = environment(kafka, session, folder, source, target, guarantee, False, engine, interval_s=interval_s, bounded=False)
    client = env.execute_async()
    found, over = [], threading.Event()

    def look():
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.address,
                "group.id": f"watch-{target}",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(target, number, 0) for number in range(PARTITIONS)])
        while not over.is_set():
            for message in consumer.consume(500, 0.02):
                found.append((float(message.value()), time.time()))
        consumer.close()

    watching = threading.Thread(target=look)
    watching.start()
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 0})
    try:
        while not found:  # the job runs
            producer.produce(source, value=str(time.time()))
            producer.flush()
            time.sleep(0.1)
        began = time.time()
        while time.time() < began + seconds:
            producer.produce(source, value=str(time.time()))
            producer.poll(0)
            time.sleep(0.02)
        producer.flush()
        time.sleep(interval_s + 2)
    finally:
        over.set()
        watching.join()
        client.cancel().result()
        register_executor(None)
    return sorted(seen - sent for sent, seen in found if sent > began + 5)


def spark_query(kafka, session, folder, source, target):
    frame = session.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("subscribe", source)
    frame = frame.option("startingOffsets", "earliest").load().select("key", "value")
    writing = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", target)
    query = writing.option("checkpointLocation", str(folder / f"spark-{target}")).trigger(availableNow=True).start()
    query.awaitTermination()


def filled_topics(kafka, records):
    """Return a topic with so many records, and one with one."""
    full, empty = kafka.new_topic(PARTITIONS), kafka.new_topic(PARTITIONS)
    padding = "x" * (SIZE - 9)
    kafka.send(full, [(None, f"{number % KEYS:08} {padding}") for number in range(records)])
    kafka.send(empty, [(None, f"{0:08}")])
    return full, empty


def throughput(kafka, session, folder, engine, records, rounds, topics):
    full, empty = topics
    sides = {}
    if engine == ENGINES[0]:
        sides["Spark's identity query"] = lambda *topics: spark_query(kafka, session, folder, *topics)
    for keyed, what in ((False, "identity"), (True, "keyed count")):
        for guarantee in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):

            def run(*topics, guarantee=guarantee, keyed=keyed):
                job(kafka, session, folder, *topics, guarantee, keyed, engine)

            sides[f"{engine} {what}, {words(guarantee)}"] = run
    for side in list(sides)[:2]:  # the first of its kind starts more than itself
        sides[side](empty, kafka.new_topic(PARTITIONS))
    best = {}
    for _ in range(rounds):
        for side, run in sides.items():
            for kind, source, expected in (("empty", empty, 1), ("full", full, records)):
                target = kafka.new_topic(PARTITIONS)
                started = time.perf_counter()
                run(source, target)
                seconds = time.perf_counter() - started
                written = len(kafka.read(target))
                assert written == expected, f"{side}: {written} of {expected} records"
                best[side, kind] = min(best.get((side, kind), seconds), seconds)
    for side in sides:
        whole, nothing = best[side, "full"], best[side, "empty"]
        rates = f"{records / whole:,.0f} | {records / (whole - nothing):,.0f}"
        print(f"| {side} | {whole:.1f} | {nothing:.1f} | {rates} |", flush=True)


def latency(kafka, session, folder, engine, seconds):
    for guarantee, interval_s in [(DeliveryGuarantee.AT_LEAST_ONCE, 1.0)] + [
        (DeliveryGuarantee.EXACTLY_ONCE, interval_s) for interval_s in INTERVALS_S
    ]:
        found = delays(kafka, session, folder, guarantee, engine, interval_s, seconds)
        high = found[int(len(found) * 0.99)]
        figures = f"{interval_s:g} | {statistics.median(found):.3f} | {high:.3f} | {found[-1]:.3f}"
        print(f"| {engine} | {words(guarantee)} | {figures} |", flush=True)


def words(guarantee):
    return guarantee.name.lower().replace("_", "-")


def sessions(options, folder):
    """Give each engine, with a session of its own as long as it is looked at."""
    for engine in ENGINES:
        session = create_session(Configuration({**options, "execution.engine": engine}), "benchmark", folder / "spark.log")
        yield engine, session
        session.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-benchmark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        options = {
            "pystate.spark.master": "local[10,4]",
            "spark.jars": ",".join(spark_jars()),
        }
        with running_broker(folder / "broker") as kafka:
            print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
            if arguments.records:
                print(f"{arguments.records:,} records\n")
                print("| job | s | s empty | records/s | records/s without start and end |\n|---|---|---|---|---|")
                topics = filled_topics(kafka, arguments.records)
                for engine, session in sessions(options, folder):
                    throughput(kafka, session, folder, engine, arguments.records, arguments.rounds, topics)
            if arguments.seconds:
                print(
                    "\n| engine | sink | checkpoint interval, s | record to visible, s: median | 99th percentile | longest |"
                )
                print("|---|---|---|---|---|---|")
                for engine, session in sessions(options, folder):
                    latency(kafka, session, folder, engine, arguments.seconds)


if __name__ == "__main__":
    main()
