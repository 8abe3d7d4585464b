"""A client of Kafka's without brokers: partitions are lists, and messages come as librdkafka brings them."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, KafkaException

from pystate.common.serialization import DeserializationSchema
from pystate.connectors.kafka.offsets import KafkaTopicPartition
from pystate.connectors.kafka.record_deserialization import KafkaRecordDeserializationSchema
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.kafka.source.topic_identity import FoundTopic
from pystate.core.metrics.metric import Counter


class Schema(DeserializationSchema):
    def deserialize(self, data):
        return None if data == b"none" else data.decode()


def settings(**more):
    schema = more.pop("schema", None) or KafkaRecordDeserializationSchema.value_only(Schema())
    return KafkaSplitSettings(schema, {"bootstrap.servers": "nowhere:1"}, "words", **more)


def place(number, topic="t"):
    return KafkaTopicPartition(topic, number)


def topics_of(ids, numbers=range(9)):
    """Answer as brokers do whose topics have these ids, and these partitions."""
    return lambda names: {name: FoundTopic(ids[name], frozenset(numbers)) for name in names if name in ids}


class Message:
    def __init__(self, partition, offset, value=None, time=0, error=None, topic="t", key=None, headers=None):
        self._all = (topic, partition, offset, value, time, error)
        self.key, self.headers = (lambda: key), (lambda: headers)

    def topic(self):
        return self._all[0]

    def partition(self):
        return self._all[1]

    def offset(self):
        return self._all[2]

    def value(self):
        return self._all[3]

    def timestamp(self):
        return 1, self._all[4]

    def error(self):
        return self._all[5]


def end_of(partition, offset):
    return Message(partition, offset, error=KafkaError(KafkaError._PARTITION_EOF))


class Fetcher:
    """Hands out batches that a test puts in, as the thread of a real one does."""

    def __init__(self):
        self.batches = []
        self.assigned = []
        self.released = []
        self.commits = []
        self.closed = False
        self.is_away = False
        self.ends = {}

    def start(self):
        pass

    def end_of(self, partition):
        return self.ends.get(partition.partition)

    def assign(self, splits):
        self.assigned += [(split.partition.partition, split.offset) for split in splits]

    def release(self, partition):
        self.released.append(partition.partition)

    def take(self):
        return self.batches.pop(0) if self.batches else []

    def sleep(self):
        return not self.batches

    def commit(self, offsets):
        self.commits.append({place.partition: offset for place, offset in offsets.items()})

    def close(self):
        self.closed = True


class Consumer:
    """What `PartitionFetcher` calls; all from one thread at a time."""

    def __init__(self, batches=(), settings=None):
        self.settings = settings or {}
        self.calls = []
        self.threads = set()
        self.batches = list(batches)
        self.fails = None
        self.committed = threading.Event()
        self.ends = {}
        self.away_until = None  # the brokers answer the so-manieth question
        self.asked = 0

    def _note(self, *call):
        self.calls.append(call)
        self.threads.add(threading.get_ident())

    def get_watermark_offsets(self, place, *, cached=False, timeout=None):
        self.threads.add(threading.get_ident())
        if not cached:
            assert self.away_until is not None, "the brokers would be asked, and waited for"
            self.asked += 1
            if self.asked < self.away_until:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.ends.get(place.partition, (-1001, -1001))

    def incremental_assign(self, places):
        self._note("assign", [(one.partition, one.offset) for one in places])

    def incremental_unassign(self, places):
        self._note("unassign", [one.partition for one in places])

    def poll(self, timeout):
        self.threads.add(threading.get_ident())
        if self.fails is not None:
            raise self.fails
        if self.batches:
            self._rest = self.batches.pop(0)
            return self._rest.pop(0)
        threading.Event().wait(0.001)
        return None

    def consume(self, count, timeout):
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def commit(self, offsets, asynchronous):
        self._note("commit", [(one.partition, one.offset) for one in offsets])
        self.committed.set()
        if self.fails is not None:
            raise KafkaException(self.fails)

    def close(self):
        self._note("close")


class Output:
    def __init__(self, room=1000):
        self.elements = []
        self.splits = []
        self._room = room
        self._split = None

    def collect(self, record, timestamp=None):
        self.elements.append((self._split, record, timestamp))

    def room(self):
        return self._room

    def set_splits(self, splits):
        self.splits.append(dict(splits))

    def begin_split(self, split_id):
        self._split = split_id


class Gauges:
    """What a reader measures, by names with dots."""

    def __init__(self, known, scope=()):
        self.known, self.scope = known, scope

    def add_group(self, *names):
        return Gauges(self.known, (*self.scope, *names))

    def gauge(self, name, function):
        self.known[".".join((*self.scope, name))] = function

    def counter(self, name):
        made = Counter()
        self.known[".".join((*self.scope, name))] = made.get_count
        return made


class Context:
    """Of a reader and of an enumerator."""

    def __init__(self, parallelism=1):
        self.requests = 0
        self.given = {}
        self.ended = []
        self.events = []
        self._parallelism = parallelism
        self.gauges = {}

    def metric_group(self):
        return Gauges(self.gauges)

    def current_parallelism(self):
        return self._parallelism

    def send_split_request(self):
        self.requests += 1

    def assign_split(self, split, subtask):
        self.given.setdefault(subtask, []).append(split)

    def send_event_to_source_reader(self, subtask, event):
        self.events.append((subtask, event))

    def signal_no_more_splits(self, subtask):
        self.ended.append(subtask)
