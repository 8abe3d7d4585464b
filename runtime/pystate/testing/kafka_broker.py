"""A real Kafka broker on loopback for tests: one process, no ZooKeeper (KRaft)."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import itertools
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pystate.common.errors import ExternalSystemError, JavaNotFoundError
from pystate.common.processes.java import find_java

__all__ = ["KafkaBroker", "running_broker"]

_LONGEST_S = 180
"""How long an answer is waited for: a broker on a busy machine is slow."""
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
        libraries: The folder with Kafka's jars.
        settings: Further ones of the server.
        passwords: By user: of a second listener, which wants them (SASL/PLAIN). None for no such listener.

    Attributes:
        address: What `bootstrap.servers` is to be.
        secure_address: The same of the listener that wants passwords.
    """

    def __init__(
        self,
        folder: Path,
        libraries: Path,
        settings: Mapping[str, str] | None = None,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        port, controller, secure = _free_port(), _free_port(), _free_port()
        self._libraries = libraries
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
        subprocess.run(  # noqa: S603 - Java
            [*self._java("kafka.tools.StorageTool"), "format", "-t", cluster, "-c", str(self._settings)],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start it, and wait until it answers a client."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - Java
                [*self._java("kafka.Kafka"), str(self._settings)],
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self.wait()

    def wait(self) -> None:
        """Wait until it answers a client."""
        KafkaException = _client("confluent_kafka").KafkaException

        deadline = time.monotonic() + _LONGEST_S
        while True:
            runs = self._process is not None and self._process.poll() is None
            _check(runs, lambda: f"Kafka has ended: {self._log.read_text('utf-8', 'replace')}")
            try:
                self.admin().list_topics(timeout=1)
            except KafkaException:
                _check(time.monotonic() < deadline, lambda: f"Kafka doesn't answer after {_LONGEST_S} s.")
            else:
                return

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_LONGEST_S)
            self._process = None

    def close(self) -> None:
        """End it, where it runs."""
        self.kill()

    def admin(self) -> Any:
        """Return a client that looks after topics."""
        AdminClient = _client("confluent_kafka.admin").AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 2})

    def new_topic(self, partitions: int = 1, prefix: str = "topic", **config: str) -> str:
        """Make a topic, and return its name."""
        NewTopic = _client("confluent_kafka.admin").NewTopic

        name = f"{prefix}-{next(self._names)}"
        topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        admin = self.admin()  # its answers end with it
        admin.create_topics([topic])[name].result(_LONGEST_S)
        self._wait_for(name, partitions)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions in all."""
        NewPartitions = _client("confluent_kafka.admin").NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(_LONGEST_S)
        self._wait_for(topic, count)

    def group_offsets(self, group: str, *topics: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a consumer group has committed for topics."""
        of = _client("confluent_kafka")
        Consumer, TopicPartition = of.Consumer, of.TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 2})
        try:
            known = consumer.list_topics(timeout=_LONGEST_S).topics
            asked = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            return {
                (one.topic, one.partition): one.offset for one in consumer.committed(asked, _LONGEST_S) if one.offset >= 0
            }
        finally:
            consumer.close()

    def forget_group(self, group: str) -> None:
        """Drop a group's offsets, as brokers do some days after their last use (`offsets.retention.minutes`)."""
        admin = self.admin()  # its answers end with it
        admin.delete_consumer_groups([group])[group].result(_LONGEST_S)

    def alter_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Set properties of a topic."""
        of, admin = _client("confluent_kafka.admin"), self.admin()
        change = of.AlterConfigOpType.SET
        entries = [of.ConfigEntry(key, value, incremental_operation=change) for key, value in config.items()]
        resource = of.ConfigResource(of.ResourceType.TOPIC, topic, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(_LONGEST_S)

    def remake_topic(self, topic: str, partitions: int) -> None:
        """Delete a topic, and make another one of its name."""
        KafkaException = _client("confluent_kafka").KafkaException
        NewTopic = _client("confluent_kafka.admin").NewTopic

        admin = self.admin()
        admin.delete_topics([topic])[topic].result(_LONGEST_S)
        deadline = time.monotonic() + _LONGEST_S
        while True:  # it goes a little later
            try:
                admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_LONGEST_S)
                break
            except KafkaException:
                _check(time.monotonic() < deadline, lambda: f"The topic {topic} isn't deleted after {_LONGEST_S} s.")
                time.sleep(0.1)
        self._wait_for(topic, partitions)

    @contextmanager
    def open_transaction(self, topic: str, partition: int, value: str = "open") -> Iterator[Any]:
        """Have a transaction of somebody else open in a partition; it is aborted at the end, where it wasn't ended."""
        of = _client("confluent_kafka")
        KafkaException, Producer = of.KafkaException, of.Producer

        other = f"other-{uuid.uuid4().hex}"
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": other, "log_level": 2})
        producer.init_transactions(_LONGEST_S)
        producer.begin_transaction()
        producer.produce(topic, key=other, value=value, partition=partition)
        _check(producer.flush(_LONGEST_S) == 0, lambda: f"Kafka took no record for {topic} in {_LONGEST_S} s.")
        try:
            yield producer
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(_LONGEST_S)

    def send(self, topic: str, records: Sequence[tuple[Any, Any]], partition: int | None = None, **more: Any) -> None:
        """Write records of key and value, in their order."""
        Producer = _client("confluent_kafka").Producer

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
        _check(producer.flush(_LONGEST_S) == 0, lambda: f"Kafka didn't take all records for {topic} in {_LONGEST_S} s.")

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """Return all messages of a topic that a reader sees by now, partition by partition."""
        of = _client("confluent_kafka")
        Consumer, KafkaError, TopicPartition = of.Consumer, of.KafkaError, of.TopicPartition

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
            partitions = sorted(consumer.list_topics(topic, timeout=_LONGEST_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            ended: set[int] = set()
            deadline = time.monotonic() + _LONGEST_S
            while len(ended) < len(partitions):
                _check(time.monotonic() < deadline, lambda: f"The end of {topic} isn't reached after {_LONGEST_S} s.")
                message = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name in the client
                    ended.add(message.partition())
        finally:
            consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def open_transactions(self, topic: str) -> list[int]:
        """Return the partitions where readers of committed records wait for the end of a transaction."""
        of = _client("confluent_kafka")
        IsolationLevel, TopicPartition = of.IsolationLevel, of.TopicPartition
        OffsetSpec = _client("confluent_kafka.admin").OffsetSpec

        admin = self.admin()
        partitions = admin.list_topics(topic, timeout=_LONGEST_S).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
        ends = []
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            answers = admin.list_offsets(asked, isolation_level=isolation)
            ends.append({place.partition: answer.result(_LONGEST_S).offset for place, answer in answers.items()})
        return [number for number in partitions if ends[0][number] != ends[1][number]]

    def _wait_for(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + _LONGEST_S
        while True:
            known = self.admin().list_topics(timeout=10).topics.get(topic)
            if known is not None and len(known.partitions) == partitions:
                if all(one.leader != -1 for one in known.partitions.values()):
                    return
            _check(time.monotonic() < deadline, lambda: f"The partitions of {topic} have no leaders after {_LONGEST_S} s.")

    def _java(self, main_class: str) -> list[str]:
        return [
            str(find_java().executable),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *("-cp", f"{self._libraries}/*"),
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


def kafka_libraries(configured: Sequence[Path] = ()) -> Path | None:
    """Return the folder with a Kafka's jars: the configured one, else `libs` below `KAFKA_HOME`; None if neither is set."""
    home = os.environ.get("KAFKA_HOME")
    return next(iter(configured), None if home is None else Path(home, "libs"))


def why_no_broker(libraries: Path | None) -> str | None:
    """Return why no broker can run here; None if one can."""
    if libraries is None:
        return "there is no Kafka here: set KAFKA_HOME to the folder of one, or pystate_kafka_libs in pytest's configuration"
    if not any(libraries.glob("kafka_*.jar")):
        return f"{libraries} has no Kafka: there is no kafka_*.jar in it"
    if importlib.util.find_spec("confluent_kafka") is None:
        return "there is no client of Kafka here: pip install 'pystate-spark[kafka]'"
    try:
        find_java()
    except JavaNotFoundError as error:
        return error.message
    return None


@contextmanager
def running_broker(
    folder: Path, libraries: Path, settings: Mapping[str, str] | None = None, passwords: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """Run a broker; for its arguments see `KafkaBroker`."""
    broker = KafkaBroker(folder, libraries, settings, passwords)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def _client(module: str) -> Any:
    """Return a module of the client of Kafka; without types, which most of its names don't have."""
    return importlib.import_module(module)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _check(holds: bool, message: Callable[[], str]) -> None:
    if not holds:
        raise ExternalSystemError(message())
