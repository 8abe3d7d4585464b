"""A real Kafka broker on loopback, from the jars that `make servers` brings: one process, no ZooKeeper (KRaft)."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import JavaNotFoundError
from pystate.common.processes.java import find_java
from tests.servers.nginx import free_port
from tests.servers.places import SERVERS
from tests.waiting import LONGEST_S

JARS = SERVERS / "kafka"
SPARK_JARS = SERVERS / "spark-kafka"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=2
num.io.threads=4
{more}
"""


class KafkaBroker:
    """A broker that can be killed and started again, with what it had on disk.

    Args:
        folder: Its own.
        settings: Further ones of the server.
        passwords: By user: of a second listener, which wants them (SASL/PLAIN). None for no such listener.

    Attributes:
        address: What `bootstrap.servers` is to be.
        secure_address: The same of the listener that wants passwords.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, passwords: Mapping[str, str] | None = None
    ) -> None:
        port, controller, secure = free_port(), free_port(), free_port()
        self.address, self.secure_address = f"127.0.0.1:{port}", f"127.0.0.1:{secure}"
        self._folder = folder
        self._settings = folder / "server.properties"
        asked = {} if passwords is None else _with_passwords(port, controller, secure, passwords)
        more = "\n".join(f"{key}={value}" for key, value in {**asked, **(settings or {})}.items())
        self._settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder, more=more))
        self._log = folder / "log.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        # 16 bytes, of which the first is 0: an id that begins with a dash would be taken for an option
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        subprocess.run(
            [*self._java("kafka.tools.StorageTool"), "format", "-t", cluster, "-c", str(self._settings)],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start it, and wait until it answers a client."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._settings)],
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self.wait()

    def wait(self) -> None:
        """Wait until it answers a client."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + LONGEST_S
        while True:
            assert self._process is not None and self._process.poll() is None, self._log.read_text("utf-8", "replace")
            try:
                self.admin().list_topics(timeout=1)
            except KafkaException:
                assert time.monotonic() < deadline, f"no broker after {LONGEST_S} s"
            else:
                return

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LONGEST_S)
        self._process = None

    def close(self) -> None:
        """End it, where it runs."""
        if self._process is not None:
            self.kill()

    def admin(self) -> Any:
        """Return a client that looks after topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 2})

    def new_topic(self, partitions: int = 1, prefix: str = "topic", **config: str) -> str:
        """Make a topic, and return its name."""
        from confluent_kafka.admin import NewTopic

        name = f"{prefix}-{next(self._names)}"
        topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        admin = self.admin()  # its answers end with it
        admin.create_topics([topic])[name].result(LONGEST_S)
        self._wait_for(name, partitions)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions in all."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(LONGEST_S)
        self._wait_for(topic, count)

    def group_offsets(self, group: str, *topics: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a consumer group has committed for topics."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 2})
        try:
            known = consumer.list_topics(timeout=LONGEST_S).topics
            asked = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            return {(one.topic, one.partition): one.offset for one in consumer.committed(asked, 30) if one.offset >= 0}
        finally:
            consumer.close()

    def forget_group(self, group: str) -> None:
        """Drop a group's offsets, as brokers do some days after their last use (`offsets.retention.minutes`)."""
        admin = self.admin()  # its answers end with it
        admin.delete_consumer_groups([group])[group].result(LONGEST_S)

    def alter_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Set properties of a topic."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        admin = self.admin()
        entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(LONGEST_S)

    def remake_topic(self, topic: str, partitions: int) -> None:
        """Delete a topic, and make another one of its name."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        admin.delete_topics([topic])[topic].result(LONGEST_S)
        deadline = time.monotonic() + LONGEST_S
        while True:  # it goes a little later
            try:
                admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LONGEST_S)
                break
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        self._wait_for(topic, partitions)

    @contextmanager
    def open_transaction(self, topic: str, partition: int, value: str = "open") -> Iterator[Any]:
        """Have a transaction of somebody else open in a partition; it is aborted at the end, where it wasn't ended."""
        from confluent_kafka import KafkaException, Producer

        other = f"other-{uuid.uuid4().hex}"
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": other, "log_level": 2})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, key=other, value=value, partition=partition)
        assert producer.flush(30) == 0
        try:
            yield producer
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(30)

    def send(self, topic: str, records: Sequence[tuple[Any, Any]], partition: int | None = None, **more: Any) -> None:
        """Write records of key and value, in their order."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "log_level": 2, "enable.idempotence": True})
        where = {} if partition is None else {"partition": partition}
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, key=key, value=value, **where, **more)
                    break
                except BufferError:  # more than the client holds (100,000): wait for some to arrive
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(60) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """Return all messages of a topic that a reader sees by now, partition by partition."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        settings = {
            "bootstrap.servers": self.address,
            "group.id": f"outside-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
        consumer, found = Consumer(settings), []
        try:
            partitions = sorted(consumer.list_topics(topic, timeout=LONGEST_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            ended: set[int] = set()
            deadline = time.monotonic() + LONGEST_S
            while len(ended) < len(partitions):
                assert time.monotonic() < deadline, "the topic has no end"
                message = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        finally:
            consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def open_transactions(self, topic: str) -> list[int]:
        """Return the partitions where readers of committed records wait for the end of a transaction."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        admin = self.admin()
        partitions = admin.list_topics(topic, timeout=LONGEST_S).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
        ends = []
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            answers = admin.list_offsets(asked, isolation_level=isolation)
            ends.append({place.partition: answer.result(LONGEST_S).offset for place, answer in answers.items()})
        return [number for number in partitions if ends[0][number] != ends[1][number]]

    def _wait_for(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + LONGEST_S
        while True:
            known = self.admin().list_topics(timeout=LONGEST_S).topics.get(topic)
            if known is not None and len(known.partitions) == partitions:
                if all(one.leader != -1 for one in known.partitions.values()):
                    return
            assert time.monotonic() < deadline, f"no leaders of {topic}"

    def _java(self, main_class: str) -> list[str]:
        return [
            str(find_java().executable),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *("-cp", f"{JARS}/*"),
            main_class,
        ]


def _with_passwords(port: int, controller: int, secure: int, passwords: Mapping[str, str]) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    protocols = {"PLAINTEXT": port, "SASL_PLAINTEXT": secure}
    listeners = ",".join(f"{name}://127.0.0.1:{number}" for name, number in protocols.items())
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} {users};",
    }


def missing() -> str | None:
    """Say why there is no broker here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no Kafka here: run `make servers`"
    if importlib.util.find_spec("confluent_kafka") is None:
        return "there is no client of Kafka's here: run `make setup`"
    try:
        find_java()
    except JavaNotFoundError as error:
        return error.message
    return None


def spark_jars() -> list[str]:
    """Return the files of Spark's connector to Kafka; none where `make servers` has not brought them."""
    if not (SPARK_JARS / ".complete").is_file():
        return []
    return [str(path) for path in sorted(SPARK_JARS.glob("*.jar"))]


@contextmanager
def running_broker(
    folder: Path, settings: Mapping[str, str] | None = None, passwords: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """Run a broker."""
    broker = KafkaBroker(folder, settings, passwords)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for all tests of a process; who kills it starts it again."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
