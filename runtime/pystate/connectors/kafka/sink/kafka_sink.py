"""`KafkaSink`: writes to Kafka, with one of three guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pystate.common.configuration.groups.sink_options import SinkOptions
from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.connectors.client_package import client_findings
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.kafka.kafka_client import BOOTSTRAP_SERVERS, new_client
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema
from pystate.connectors.kafka.sink.commit_markers import MARKER_TOPIC, Markers
from pystate.connectors.kafka.sink.kafka_committer import KafkaCommitter, KafkaWriteAheadWriter, stamp_of
from pystate.connectors.kafka.sink.kafka_writer import KafkaWriter, producer_settings
from pystate.connectors.kafka.upserts import UpsertBuffer, UpsertKafkaRecordSerializationSchema
from pystate.connectors.sink import CommitterInitContext, InitContext, Sink, SinkWriter, SupportsCommitter, WriterInitContext

DEAD_LETTERS = "deadLetterRecords"
"""The metric that counts records which went to the topic of dead letters."""
_OURS = {"transactional.id": "set_transactional_id_prefix()", BOOTSTRAP_SERVERS: "set_bootstrap_servers()"}


@dataclass(frozen=True)
class KafkaSinkSettings:
    """The settings of a sink.

    Attributes:
        schema: Makes records from elements.
        guarantee: The delivery guarantee.
        transactional_id_prefix: The prefix of transactional ids.
        marker_topic: The topic of the commit markers.
        properties: The properties of the client.
        dead_letter_topic: The topic for records that brokers reject permanently; None for none.
        buffered_keys: Of so many keys the latest record waits for the next checkpoint; 0 to write all records.
    """

    schema: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    transactional_id_prefix: str = "kafka-sink"
    marker_topic: str = MARKER_TOPIC
    properties: dict[str, str] = field(default_factory=dict)
    dead_letter_topic: str | None = None
    buffered_keys: int = 0

    def buffer(self) -> UpsertBuffer | None:
        """Return the buffer of a writer; None for none."""
        return UpsertBuffer(self.buffered_keys) if self.buffered_keys else None


class KafkaSink(Sink[Any], SupportsEarlyCheck):
    """Writes each element as a record; made by `builder()`.

    Args:
        transformer: PyFlink's hook for topic selectors; unused here, the writer calls them.
        settings: The settings of the sink.

    Raises:
        JobGraphError: There are no settings.
    """

    def __init__(self, transformer: None = None, *, settings: KafkaSinkSettings | None = None) -> None:
        if transformer is not None or settings is None:
            message = "A KafkaSink is made by its builder."
            raise JobGraphError(message, hint="KafkaSink.builder()...build()")
        self.settings = settings

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        needed = "Kafka's client, confluent-kafka, is not installed here."
        missing = list(client_findings("confluent_kafka", needed, "kafka", in_slots=True))
        yield from missing
        if missing:
            return
        properties = {key: value for key, value in self.settings.properties.items() if key != BOOTSTRAP_SERVERS}
        try:
            new_client("Producer", producer_settings(properties), repr(self))  # without brokers it asks nobody
        except JobGraphError as error:
            yield EarlyFinding(error, in_slots=True)  # files with certificates may be there alone

    @property
    @override
    def consumed_type(self) -> TypeInformation | None:
        return self.settings.schema.consumed_type

    def get_transformer(self) -> None:
        """Return None: the stream is not transformed."""
        return

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return a writer that sends records immediately."""
        settings = self.settings
        return KafkaWriter(
            settings.properties,
            settings.schema,
            settings.guarantee,
            _place(context),
            settings.dead_letter_topic,
            context.metric_group().counter(DEAD_LETTERS).inc,
            settings.buffer(),
        )

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """The delivery guarantee."""
        return self.settings.guarantee

    @property
    def guarantee_reason(self) -> str:
        """Why the sink has this guarantee."""
        if self.settings.guarantee is DeliveryGuarantee.NONE:
            return "records are sent, and nobody waits for them to arrive"
        return "records have arrived when a checkpoint is taken; what comes after it is written again after a failure"


class ExactlyOnceKafkaSink(KafkaSink, SupportsCommitter[dict[str, Any]]):
    """Writes the records of a checkpoint in one transaction, once the checkpoint is complete."""

    step: Callable[[str], None] = staticmethod(lambda _: None)
    """Is told each step of a commit; tests crash there."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return a writer that buffers records until their checkpoint is complete."""
        properties, where = self.settings.properties, _place(context)
        markers = Markers(properties, self.settings.marker_topic, where)
        transactional_id = self.transactional_id(context)
        stamp = stamp_of(properties, markers, transactional_id, where)
        return KafkaWriteAheadWriter(self.settings.schema, transactional_id, stamp=stamp, buffer=self.settings.buffer())

    def create_committer(self, context: CommitterInitContext) -> KafkaCommitter:
        """Return the committer, which writes the records."""
        settings, where = self.settings, _place(context)
        markers = Markers(settings.properties, settings.marker_topic, where)
        own = self.transactional_id(context)
        return KafkaCommitter(
            settings.properties,
            markers,
            settings.marker_topic,
            own,
            where,
            self.step,
            dead_letter_topic=settings.dead_letter_topic,
            unknown=context.get_job_configuration().get(SinkOptions.UNKNOWN_COMMITS),
            count_dead_letters=context.metric_group().counter(DEAD_LETTERS).inc,
        )

    @property
    def guarantee_reason(self) -> str:
        """Why the sink has this guarantee."""
        return "one transaction for each checkpoint, once it is complete; readers with isolation.level=read_committed see it"

    def transactional_id(self, context: InitContext) -> str:
        """Return the transactional id of a subtask: unique per job and sink, and the same in each attempt."""
        parts = (self.settings.transactional_id_prefix, context.get_job_id(), context.get_operator_uid())
        return "-".join((*parts, str(context.get_index_of_this_subtask())))


class KafkaSinkBuilder:
    """Builds a `KafkaSink`."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = "kafka-sink"
        self._marker_topic = MARKER_TOPIC
        self._dead_letter_topic: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None
        self._buffered_keys = 0

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the bootstrap servers: `host:port,host:port`."""
        self._properties[BOOTSTRAP_SERVERS] = str(bootstrap_servers)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the delivery guarantee; NONE by default, as in Flink.

        Raises:
            JobGraphError: It isn't a `DeliveryGuarantee`.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            message = f"set_delivery_guarantee() takes a DeliveryGuarantee, not {delivery_guarantee!r}."
            raise JobGraphError(message)
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of transactional ids; job id, uid and subtask follow, so ids of two jobs never collide."""
        self._prefix = str(transactional_id_prefix)
        return self

    def set_marker_topic(self, topic: str) -> KafkaSinkBuilder:
        """Set the topic of the commit markers (pystate only); `pystate-commits` by default."""
        self._marker_topic = str(topic)
        return self

    def set_dead_letter_topic(self, topic: str) -> KafkaSinkBuilder:
        """Set the topic for permanently rejected records (pystate only): too large, time out of bounds, missing key.

        They keep key and value; headers say their topic, their timestamp and the reason. Without it they fail the job.
        """
        self._dead_letter_topic = str(topic)
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set the schema that makes records from elements.

        Raises:
            JobGraphError: It isn't a `KafkaRecordSerializationSchema`.
        """
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            message = f"set_record_serializer() takes a KafkaRecordSerializationSchema, not {record_serializer!r}."
            raise JobGraphError(message, hint="KafkaRecordSerializationSchema.builder()...build()")
        self._schema = record_serializer
        return self

    def set_buffer_flush_max_rows(self, max_rows: int) -> KafkaSinkBuilder:
        """Write only the latest record of each key (pystate only): Flink's `sink.buffer-flush.max-rows` of upsert-kafka.

        They are written at each checkpoint, and once there are so many keys. For an `UpsertKafkaRecordSerializationSchema`.

        Raises:
            JobGraphError: It isn't a number of rows.
        """
        if not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 1:
            message = f"set_buffer_flush_max_rows() takes a number of rows from 1 on, not {max_rows!r}."
            raise JobGraphError(message)
        self._buffered_keys = max_rows
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the client (librdkafka's names), for example for security.

        Raises:
            JobGraphError: The builder has a method for it.
        """
        if key in _OURS and key != BOOTSTRAP_SERVERS:
            message = f"set_property({key!r}) is not for authors: pystate sets it."
            raise JobGraphError(message, hint=f"call {_OURS[key]}")
        self._properties[str(key)] = str(value)
        return self

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            JobGraphError: Brokers or the schema are missing.
        """
        if not self._properties.get(BOOTSTRAP_SERVERS):
            message = "A KafkaSink needs to know where brokers are."
            raise JobGraphError(message, hint='call set_bootstrap_servers("host:9092")')
        if self._schema is None:
            message = "A KafkaSink needs to know how elements become records."
            raise JobGraphError(
                message, hint="call set_record_serializer(KafkaRecordSerializationSchema.builder()...build())"
            )
        if self._buffered_keys and not isinstance(self._schema, UpsertKafkaRecordSerializationSchema):
            message = "set_buffer_flush_max_rows() needs records that replace others by their keys."
            raise JobGraphError(message, hint="set_record_serializer(UpsertKafkaRecordSerializationSchema(...))")
        settings = KafkaSinkSettings(
            self._schema,
            self._guarantee,
            self._prefix,
            self._marker_topic,
            dict(self._properties),
            self._dead_letter_topic,
            self._buffered_keys,
        )
        exactly_once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return (ExactlyOnceKafkaSink if exactly_once else KafkaSink)(settings=settings)


def _place(context: InitContext) -> str:
    return f"uid {context.get_operator_uid()}, subtask {context.get_index_of_this_subtask()}"
