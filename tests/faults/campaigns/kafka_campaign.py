"""Kills under a job from Kafka to Kafka, looked at from outside.

    python -m tests.faults.campaigns.kafka_campaign --kills 50 --seed 1

A reader of committed records looks at the output topic all the while: of each key it must see 1, 2, 3, ... in that order,
and what it has seen stays. So nothing is lost, doubled, out of order, or visible before it counts. Slots, Python workers and
the daemon that forks them are killed, and the broker, which is started again. In the end every record that was sent has
come out, and no transaction is open.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystate.common.serialization import SimpleStringSchema
from pystate.common.type_info import Types
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor
from tests.faults.campaigns.campaign import OPTIONS, victims_of
from tests.faults.processes import kill

KINDS = ("slot", "broker", "worker", "daemon")
KEYS = 5
LONGEST_PAUSE_S = 1.5


class Numbered(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


class Key(SimpleStringSchema):
    def serialize(self, element):
        return super().serialize(element.partition(":")[0])


def kafka_to_kafka(kafka: Any, source: str, target: str) -> Callable[[], object]:
    """Return a program that numbers the records of each key."""
    records = KafkaRecordSerializationSchema.builder().set_topic(target).set_key_serialization_schema(Key())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    sink = sink.set_record_serializer(records.set_value_serialization_schema(SimpleStringSchema()).build()).build()
    words = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(source)
    words = words.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    words = words.set_value_only_deserializer(SimpleStringSchema()).build()

    def program() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_source(words, None, "words").uid("words")
        keyed = stream.key_by(lambda word: word, key_type=Types.STRING())
        keyed.process(Numbered(), Types.STRING()).uid("count").sink_to(sink).uid("sink")
        env.execute("Kafka to Kafka")

    return program


@dataclass
class Outside:
    """What a reader of committed records sees.

    Attributes:
        parse: Makes key and number of a value.
        seen: By key, how far it counts.
    """

    kafka: Any
    topic: str
    parse: Callable[[str], tuple[str, int]] = lambda text: (text.partition(":")[0], int(text.partition(":")[2]))
    seen: Counter[str] = field(default_factory=Counter)

    def look(self) -> Counter[str]:
        """Read all; fails where it is no continuation of what was seen before."""
        now: Counter[str] = Counter()
        for message in self.kafka.read(self.topic):
            word, number = self.parse(message.value().decode())
            now[word] += 1
            assert number == now[word], f"{word}: {number} stands where {now[word]} should be"
        gone = self.seen - now
        assert not gone, f"records that were visible are gone: {gone}"
        self.seen = now
        return now


@dataclass
class KafkaReport:
    """What a campaign came to."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    checkpoints: int = 0
    records: int = 0
    looks: int = 0
    seconds: float = 0.0

    def to_markdown(self) -> str:
        """Return the report as a row of a table."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kills.items()))
        return (
            f"| {self.seed} | {self.kills.total()} ({kinds}) | {self.restarts} | {self.checkpoints} | {self.records} "
            f"| {self.looks} | {self.seconds:.0f} |"
        )


HEADER = "| seed | kills | restarts | checkpoints | records | looks | seconds |\n|---|---|---|---|---|---|---|"


def run_kafka_campaign(run_job: Callable[..., Any], spark: Any, kafka: Any, *, kills: int, seed: int) -> KafkaReport:
    """Run the job and the kills.

    Args:
        run_job: Starts a program as a job, as the fixture of that name does.
        spark: The session.
        kafka: The broker.
        kills: How many processes are killed.
        seed: Of the input, the victims and the pauses.
    """
    report, chance, started = KafkaReport(seed), random.Random(seed), time.monotonic()
    source, target = kafka.new_topic(2, "in"), kafka.new_topic(2, "out")
    sent: Counter[str] = Counter()
    outside = Outside(kafka, target)

    def feed() -> None:
        words = [f"w{chance.randrange(KEYS)}" for _ in range(chance.randrange(1, 200))]
        kafka.send(source, [(word, word) for word in words])
        sent.update(words)

    feed()
    job = run_job(kafka_to_kafka(kafka, source, target), OPTIONS)
    job.wait_running()
    deck: list[str] = []
    while report.kills.total() < kills:
        if (sent - outside.seen).total() < 1000:
            feed()
        time.sleep(chance.random() * LONGEST_PAUSE_S)
        if not deck:
            deck = chance.sample(KINDS, len(KINDS))  # each round has all of them
        kind = deck.pop()
        if kind == "broker":
            kafka.kill()
            time.sleep(chance.random())
            kafka.start()
            report.kills[kind] += 1
        else:
            victims = victims_of(job, spark)[kind]
            if victims:
                kill(chance.choice(victims))
                report.kills[kind] += 1
        outside.look()
        report.looks += 1
    job.wait_for(lambda: outside.look() == sent, timeout=300)
    report.records = sent.total()
    report.restarts = job.status["attempt"]
    report.checkpoints = job.master.coordinator.statistics()["counts"]["completed"]
    report.seconds = time.monotonic() - started
    assert kafka.open_transactions(target) == []
    job.cancel()
    return report


if __name__ == "__main__":
    import sys

    ROOT = Path(__file__).parents[3]
    arguments = [f"--campaign-{word[2:]}" if word.startswith("--") else word for word in sys.argv[1:]]
    long_form = str(ROOT / "tests" / "faults" / "campaigns" / "test_kafka_campaign.py::test_the_campaign_at_length")
    sys.exit(pytest.main(["-q", "-s", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), long_form, *arguments]))
