"""`KafkaSource`: reads Kafka, by Spark's connector or in slots, depending on the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.serialization import DeserializationSchema
from pystate.common.type_info import TypeInformation, Types
from pystate.common.user_code.taken import take
from pystate.common.user_code.user_frames import program_line
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetsKind,
)
from pystate.connectors.kafka.record_deserialization import KafkaRecordDeserializationSchema, ValueOnly
from pystate.connectors.kafka.source.split_settings import DISCOVERY_INTERVAL_MS, KafkaSplitSettings
from pystate.connectors.kafka.source.split_source import KafkaSplitSource
from pystate.connectors.kafka.spark.java_properties import librdkafka_properties
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers, check_connector
from pystate.connectors.kafka.spark.kafka_decoder import PARTS, RECORD, KafkaDecoder
from pystate.connectors.kafka.spark.kafka_group_offsets import KafkaGroupOffsets
from pystate.connectors.kafka.spark.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.connectors.kafka.spark.kafka_stopping import KafkaStoppingOffsets
from pystate.connectors.kafka.spark.kafka_topic_ids import KafkaTopicIds
from pystate.connectors.translated_source import TranslatedSource
from pystate.core.api.transformations import SourceTransformation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SERVERS = "bootstrap.servers"
_SPARK_SETS = {"auto.offset.reset", "enable.auto.commit", "key.deserializer", "value.deserializer", "interceptor.classes"}
"""Spark's connector refuses them: it sets them itself, as Flink does."""
_OF_FLINK = {"register.consumer.metrics"}
_DISCOVERS = "partition.discovery.interval.ms"
"""Where Spark reads, new partitions are found at each epoch."""
_COMMITS_OFFSETS = "commit.offsets.on.checkpoint"
_LOSSES = "failOnDataLoss"
_OPTIONS = {"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", _LOSSES}
"""Options of Spark's connector that may be set as properties."""


@dataclass(frozen=True)
class KafkaSourceSettings:
    """The settings of a source. Exactly one of topics, pattern and partitions is set.

    Attributes:
        starting: The start offsets, in a job that starts from no snapshot.
        stopping: The end offsets; None for unbounded.
        schema: Makes elements from records.
        bad_records: What is done with records that the schema refuses.
        properties: The properties of the Java client.
        options: The options of Spark's connector.
        commits_offsets: Whether the offsets of completed checkpoints are committed to the group.
        discovery_interval_ms: The discovery interval of a source in slots; 0 or less for discovery at the start only.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    schema: KafkaRecordDeserializationSchema | None = None
    bad_records: BadRecords = field(default_factory=BadRecords.fail)
    group_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    commits_offsets: bool = True
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS


class KafkaSource(TranslatedSource):
    """Reads topics; made by `builder()`.

    Args:
        settings: The settings of the source.
    """

    def __init__(self, settings: KafkaSourceSettings) -> None:
        assert settings.schema is not None  # noqa: S101 - the builder checks it
        self.settings = settings
        self.decoder = KafkaDecoder(settings.schema, settings.bad_records)
        self._schema = take(settings.schema, "KafkaSource", program_line())

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()

    @property
    def bounded(self) -> bool:
        """Whether the source is bounded."""
        return self.settings.stopping is not None

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the elements; None if the schema doesn't define it."""
        schema = self.settings.schema
        return None if schema is None else schema.produced_type

    @override
    def to_step(
        self,
        spark: Callable[[], SparkSession],
        name: str,
        strategy: WatermarkStrategy | None,
        type_info: TypeInformation | None,
    ) -> SourceTransformation:
        timed = strategy is not None
        return SourceTransformation(
            name=name,
            frame=lambda: self.to_frame(spark(), name, timed=timed),
            stopping=self.stopping(spark, name, timed=timed),
            completed_offsets=self.group_offsets(spark, name),
            identity=self.identity(spark, name),
            in_slots=lambda _: self.in_slots(name, timed=timed),
            bounded=self.bounded,
            watermark_strategy=strategy,
            decoder=self.decoder,
            has_side_outputs=self.settings.bad_records.tag is not None,
            output_type=type_info or self.produced_type,
        )

    def to_frame(self, spark: SparkSession, where: str, *, timed: bool, condition: Column | None = None) -> DataFrame:
        """Return the streaming DataFrame of the records.

        Args:
            spark: A session with Spark's connector.
            where: The source's name, for errors.
            timed: Whether to add the columns for watermarks: times, topics and partitions.
            condition: A filter on the connector's columns; None for all records.

        Raises:
            JobGraphError: The connector is missing.
            ExternalSystemError: The brokers don't answer.
        """
        from pyspark.sql import functions as F

        check_connector(spark, where)
        settings = self.settings
        reader = spark.readStream.format("kafka").options(**settings.options)
        reader = reader.options(**{f"kafka.{key}": value for key, value in settings.properties.items()})
        reader = reader.options(**self._subscription())
        if settings.group_id is not None:
            reader = reader.option("groupIdPrefix", settings.group_id)
        if self.decoder.of_records:
            reader = reader.option("includeHeaders", "true")
        with self.brokers(spark, where) as brokers:
            frame = reader.options(**self._starting(brokers)).load()
        if condition is not None:
            frame = frame.where(condition)
        columns: list[Column] = [F.col("value")]
        if timed:  # lasting partitions are identified by these original columns
            columns += [F.col("topic"), F.col("partition"), F.expr("unix_millis(timestamp)").alias("timestamp")]
        if self.decoder.of_records:
            parts = [F.expr("unix_millis(timestamp)").alias("timestamp") if name == "timestamp" else name for name in PARTS]
            columns.append(F.struct(*parts).alias(RECORD))
        return frame.select(*columns)

    def in_slots(self, name: str, *, timed: bool) -> tuple[KafkaSplitSource, TypeInformation]:
        """Return the equivalent split-based source for slots, and the type of its elements.

        Args:
            name: Of the source, for errors.
            timed: Whether elements get the timestamps of their records.

        Raises:
            JobGraphError: A property can't be translated to librdkafka's.
        """
        settings = self.settings
        assert settings.schema is not None  # noqa: S101 - the builder checks it
        split_settings = KafkaSplitSettings(
            settings.schema,
            librdkafka_properties(settings.properties, name),
            name,
            settings.topics,
            settings.pattern,
            settings.partitions,
            settings.starting,
            settings.stopping,
            settings.group_id,
            commits_offsets=settings.commits_offsets,
            discovery_interval_ms=settings.discovery_interval_ms if settings.discovery_interval_ms > 0 else None,
            takes_losses=settings.options.get(_LOSSES, "true").lower() == "false",
            timed=timed,
            bad_records=settings.bad_records,
            taken={"schema": self._schema},
        )
        return KafkaSplitSource(split_settings), self.produced_type or Types.PICKLED_BYTE_ARRAY()

    def brokers(self, spark: SparkSession, where: str) -> KafkaBrokers:
        """Return the brokers.

        Args:
            spark: A session with Spark's connector.
            where: The source's name, for errors.
        """
        return KafkaBrokers(spark, self.settings.properties, where)

    def stopping(self, spark: Callable[[], SparkSession], where: str, *, timed: bool) -> KafkaStoppingOffsets | None:
        """Return the end of the source; None if it is unbounded.

        Args:
            spark: Returns a session with Spark's connector.
            where: The source's name, for errors.
            timed: See `to_frame`.
        """
        stopping = self.settings.stopping
        if stopping is None:
            return None
        return KafkaStoppingOffsets(
            stopping,
            lambda: self.brokers(spark(), where),
            self._partitions,
            self.settings.group_id,
            lambda condition: self.to_frame(spark(), where, timed=timed, condition=condition),
        )

    def group_offsets(self, spark: Callable[[], SparkSession], where: str) -> KafkaGroupOffsets | None:
        """Return the committer of checkpoints' offsets to the group; None without a group, or if disabled.

        Args:
            spark: Returns a session with Spark's connector.
            where: The source's name, for the log.
        """
        group = self.settings.group_id
        if group is None or not self.settings.commits_offsets:
            return None
        return KafkaGroupOffsets(lambda: self.brokers(spark(), where), group, where)

    def identity(self, spark: Callable[[], SparkSession], where: str) -> KafkaTopicIds:
        """Return the check that topics weren't recreated since a snapshot.

        Args:
            spark: Returns a session with Spark's connector.
            where: The source's name, for errors.
        """
        settings = self.settings
        takes_losses = settings.options.get(_LOSSES, "true").lower() == "false"

        topics = settings.topics or tuple({topic for topic, _ in settings.partitions})
        held: list[KafkaBrokers] = []

        def topic_ids(timeout_ms: int | None) -> dict[str, str]:
            if not held:
                held.append(self.brokers(spark(), where))
            return held[0].topic_ids(topics, settings.pattern, timeout_ms)

        def close() -> None:
            while held:
                held.pop().close()

        return KafkaTopicIds(topic_ids, where, takes_losses=takes_losses, close=close)

    def _subscription(self) -> dict[str, str]:
        settings = self.settings
        if settings.pattern is not None:
            return {"subscribePattern": settings.pattern}
        if settings.topics:
            return {"subscribe": ",".join(settings.topics)}
        by_topic: dict[str, list[int]] = {}
        for topic, number in settings.partitions:
            by_topic.setdefault(topic, []).append(number)
        return {"assign": json.dumps(by_topic)}

    def _starting(self, brokers: KafkaBrokers) -> dict[str, str]:
        starting = self.settings.starting
        if starting.kind in (OffsetsKind.EARLIEST, OffsetsKind.LATEST):
            return {"startingOffsets": starting.kind.value}
        offsets = brokers.offsets(starting, self._partitions(brokers), self.settings.group_id)
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, number), offset in offsets.items():
            by_topic.setdefault(topic, {})[str(number)] = offset
        told = {"startingOffsets": json.dumps(by_topic)}
        if starting.kind in (OffsetsKind.COMMITTED, OffsetsKind.GIVEN) and starting.reset is KafkaOffsetResetStrategy.LATEST:
            return {**told, STARTS: FROM_THE_END}
        if starting.kind is OffsetsKind.COMMITTED and self.settings.commits_offsets:
            return {**told, STARTS: FROM_THE_GROUP}
        return told

    def _partitions(self, brokers: KafkaBrokers) -> list[KafkaTopicPartition]:
        settings = self.settings
        return list(settings.partitions) or brokers.partitions(settings.topics, settings.pattern)


class KafkaSourceBuilder:
    """Builds a `KafkaSource`."""

    def __init__(self) -> None:
        self._settings = KafkaSourceSettings()
        self._properties: dict[str, str] = {}
        self._options: dict[str, str] = {}
        self._commits_offsets: bool | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the bootstrap servers: `host:port,host:port`."""
        return self.set_property(_SERVERS, bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group: checkpoints commit offsets to it, and `committed_offsets()` reads them.

        It is also the prefix of the group ids of Spark's consumers.
        """
        return self._set(group_id=str(group_id))

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Set the topics to read.

        Raises:
            JobGraphError: What to read is already set.
        """
        self._check_nothing_set()
        return self._set(topics=tuple(topics))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read the topics whose whole name matches a regular expression, including new ones.

        Raises:
            JobGraphError: What to read is already set, or it isn't a regular expression.
        """
        self._check_nothing_set()
        try:
            re.compile(topic_pattern)
        except (re.error, TypeError) as error:
            message = f"set_topic_pattern({topic_pattern!r}): {error}."
            raise JobGraphError(message) from error
        return self._set(pattern=topic_pattern)

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Set the partitions to read.

        Raises:
            JobGraphError: What to read is already set.
        """
        self._check_nothing_set()
        return self._set(partitions=tuple(sorted(KafkaTopicPartition(*partition) for partition in partitions)))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where a job without a snapshot starts; `earliest()` by default."""
        return self._set(starting=_initializer("set_starting_offsets", starting_offsets_initializer))

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where the source ends; here the same as `set_bounded`."""
        return self._set(stopping=_initializer("set_unbounded", stopping_offsets_initializer))

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where the source ends, exclusive. Determined when the job starts, and kept in snapshots.

        Raises:
            JobGraphError: It is the beginning of partitions.
        """
        stopping = _initializer("set_bounded", stopping_offsets_initializer)
        if stopping.kind is OffsetsKind.EARLIEST:
            message = "A source that ends where its partitions begin reads nothing."
            raise JobGraphError(message, hint="KafkaOffsetsInitializer.latest() is the end of what is there")
        return self._set(stopping=stopping)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Set the schema that deserializes values. Records without a value are skipped.

        Raises:
            JobGraphError: It isn't a schema.
        """
        if not isinstance(deserialization_schema, DeserializationSchema):
            message = f"set_value_only_deserializer() takes a DeserializationSchema, not {deserialization_schema!r}."
            raise JobGraphError(message, hint="SimpleStringSchema() is one; your own extends DeserializationSchema")
        return self._set(schema=ValueOnly(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Set the schema that deserializes whole records: keys, values, headers, times, and where they are.

        Raises:
            JobGraphError: It isn't a schema.
        """
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            message = f"set_deserializer() takes a KafkaRecordDeserializationSchema, not {record_deserializer!r}."
            raise JobGraphError(message, hint="set_value_only_deserializer() takes a DeserializationSchema")
        return self._set(schema=record_deserializer)

    def set_bad_records(self, bad_records: BadRecords) -> KafkaSourceBuilder:
        """Set what is done with records that the schema refuses (pystate only); by default they fail the job.

        Raises:
            JobGraphError: It isn't what `BadRecords` makes.
        """
        return self._set(bad_records=BadRecords.checked("set_bad_records", bad_records))

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the prefix of client ids."""
        self._properties["client.id"] = str(prefix)
        return self

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of the Java client, for example for security, or an option of Spark's connector.

        A source in slots translates the Java client's properties to librdkafka's; librdkafka's names work, too.

        Properties that Flink's source sets itself (deserializers, `auto.offset.reset`, `enable.auto.commit`) and Flink's own
        properties are ignored, except `commit.offsets.on.checkpoint`, true by default with a group, and in slots
        `partition.discovery.interval.ms`, five minutes by default.

        Raises:
            JobGraphError: The value is invalid for this property.
        """
        if key in _OPTIONS:
            self._options[key] = str(value)
        elif key == "group.id":
            self.set_group_id(value)
        elif key == _COMMITS_OFFSETS:
            if str(value).lower() not in ("true", "false"):
                message = f"set_property({key!r}) takes true or false, not {value!r}."
                raise JobGraphError(message)
            self._commits_offsets = str(value).lower() == "true"
        elif key == _DISCOVERS:
            try:
                self._set(discovery_interval_ms=int(value))
            except ValueError as error:
                message = f"set_property({key!r}) takes ms, not {value!r}."
                raise JobGraphError(message) from error
        elif key not in _SPARK_SETS and key not in _OF_FLINK:
            self._properties[str(key)] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several; see `set_property`."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Return the source.

        Raises:
            JobGraphError: Something is missing.
        """
        settings = self._settings
        if not self._properties.get(_SERVERS):
            message = "A KafkaSource needs to know where brokers are."
            raise JobGraphError(message, hint='call set_bootstrap_servers("host:9092")')
        if not (settings.topics or settings.pattern or settings.partitions):
            message = "A KafkaSource needs to know what to read."
            raise JobGraphError(message, hint="call set_topics(...), set_topic_pattern(...) or set_partitions(...)")
        if settings.schema is None:
            message = "A KafkaSource needs to know how values become elements."
            raise JobGraphError(message, hint="call set_value_only_deserializer(SimpleStringSchema())")
        for initializer in (settings.starting, settings.stopping):
            if initializer is not None and initializer.kind is OffsetsKind.COMMITTED and settings.group_id is None:
                message = "Offsets that a group has committed are asked for, and there is no group."
                raise JobGraphError(message, hint="call set_group_id(...)")
        if self._commits_offsets and settings.group_id is None:
            message = f"{_COMMITS_OFFSETS} is set, and there is no group to commit offsets to."
            raise JobGraphError(message, hint="call set_group_id(...)")
        commits = self._commits_offsets is not False
        properties, options = dict(self._properties), dict(self._options)
        return KafkaSource(replace(settings, properties=properties, options=options, commits_offsets=commits))

    def _check_nothing_set(self) -> None:
        settings = self._settings
        if settings.topics or settings.pattern or settings.partitions:
            message = "A KafkaSource reads topics, or those of a pattern, or partitions; one of the three is set already."
            raise JobGraphError(message)

    def _set(self, **changes: Any) -> KafkaSourceBuilder:
        self._settings = replace(self._settings, **changes)
        return self


def _initializer(call: str, value: Any) -> KafkaOffsetsInitializer:
    if not isinstance(value, KafkaOffsetsInitializer):
        message = f"{call}() takes a KafkaOffsetsInitializer, not {value!r}."
        raise JobGraphError(message, hint="KafkaOffsetsInitializer.earliest() is one")
    return value
