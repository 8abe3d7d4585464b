"""The sinks of the job of the campaign of pairs, as data: what a count goes to, by name.

A word whose count is a multiple of `DELETED_EVERY` is deleted from what holds the last counts, and comes back with the next
one. Tables and databases then have a row more, which says at which count: so readers know what is deleted, and what is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pystate.common import Row, RowKind, Types
from pystate.common.serialization import Encoder, SimpleStringSchema
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlSink
from pystate.datastream.connectors.delta import DeltaSink
from pystate.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pystate.datastream.connectors.iceberg import IcebergSink
from pystate.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    UpsertKafkaRecordSerializationSchema,
    ValueFieldsStrategy,
)
from pystate.datastream.formats.json import JsonRowSerializationSchema
from pystate.datastream.formats.schema_registry import ConfluentRegistryAvroSerializationSchema, Subject

UPSERTS = "last_counts"
COUNTS = "counts"
DELETED_EVERY = 7
GONE = " is gone"
"""What follows a word in the row that says at which count it was deleted."""
AVRO = """{"type": "record", "name": "Counted", "fields": [
    {"name": "word", "type": "string"}, {"name": "n", "type": "long"}]}"""
ROW = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
PARTED = Types.ROW_NAMED(["source", "word", "n"], [Types.STRING(), Types.STRING(), Types.LONG()])
_KEY, _VALUE = Types.ROW_NAMED(["word"], [Types.STRING()]), Types.ROW_NAMED(["n"], [Types.LONG()])


class Key(SimpleStringSchema):
    """The word, so that all its counts are in one partition."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element.partition(":")[0])


class WordOfRow(SimpleStringSchema):
    """The same of a row."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element.word)


def _exactly_once(settings: dict[str, Any], record_serializer: Any) -> KafkaSink:
    sink = KafkaSink.builder().set_bootstrap_servers(settings["kafka"])
    sink = sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_marker_topic(settings["topic_of_markers"])
    return sink.set_record_serializer(record_serializer).build()


def kafka_sink(settings: dict[str, Any]) -> KafkaSink:
    """Make the one that writes transactions."""
    records = KafkaRecordSerializationSchema.builder().set_topic(settings["topic_out"]).set_key_serialization_schema(Key())
    return _exactly_once(settings, records.set_value_serialization_schema(SimpleStringSchema()).build())


def file_sink(settings: dict[str, Any]) -> FileSink:
    """Make the one that writes text."""
    builder = FileSink.for_row_format(settings["folder_out"], Encoder.simple_string_encoder())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build()).build()


def sql_sink(settings: dict[str, Any]) -> SqlSink:
    """Make the one that writes rows and a marker in one transaction."""
    return SqlSink.builder().set_url(settings["database"]).set_table(COUNTS).set_columns("word", "number").build()


def upsert_sink(settings: dict[str, Any]) -> SqlSink:
    """Make the one that writes the last count of each word."""
    builder = SqlSink.builder().set_url(settings["database"]).set_table(UPSERTS).set_columns("word", "number")
    builder = builder.set_upsert_keys("word").set_batch_interval_ms(50).set_max_retries(30)
    return builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()


def mariadb_sink(settings: dict[str, Any]) -> SqlSink:
    """Make the one that replaces and deletes rows of MariaDB, each once."""
    builder = SqlSink.builder().set_url(settings["mariadb"]).set_table(UPSERTS).set_columns("word", "n")
    return builder.set_upsert_keys("word").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()


def upsert_kafka_sink(settings: dict[str, Any]) -> KafkaSink:
    """Make the one that writes values and tombstones by key."""
    key, value = (JsonRowSerializationSchema.builder().with_type_info(one).build() for one in (_KEY, _VALUE))
    of = (settings["topic_upserts"], ROW, ["word"], key, value, ValueFieldsStrategy.EXCEPT_KEY)
    return _exactly_once(settings, UpsertKafkaRecordSerializationSchema(*of))


def avro_sink(settings: dict[str, Any]) -> KafkaSink:
    """Make the one that writes Avro whose schema a registry has."""
    topic = settings["topic_avro"]
    values = ConfluentRegistryAvroSerializationSchema.for_rows(Subject.of_topic(topic), AVRO, settings["registry"])
    records = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(WordOfRow())
    return _exactly_once(settings, records.set_value_serialization_schema(values).build())


def delta_builder(settings: dict[str, Any], kind: str) -> Any:
    """Return the builder of a sink to a Delta table of the campaign."""
    return DeltaSink.for_table(str(Path(settings["tables"], f"delta-{kind}")))


def iceberg_builder(settings: dict[str, Any], kind: str) -> Any:
    """Return the builder of a sink to an Iceberg table of the campaign."""
    return IcebergSink.for_table(f"db.{kind}").with_catalog("pairs", settings["catalogs"][kind])


_BUILDERS = {"Delta": delta_builder, "Iceberg": iceberg_builder}


def _lines(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    return counted.map(lambda pair: f"{pair[0]}:{pair[1]}", Types.STRING()).sink_to(make(settings))


def _pairs(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    return counted.sink_to(make(settings))


def _rows(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    return counted.map(lambda pair: Row(word=pair[0], n=pair[1]), ROW).sink_to(make(settings))


def _changes(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    return counted.map(change_of, ROW).sink_to(make(settings))


def change_of(pair: tuple[str, int]) -> Row:
    """Return what a count makes of the row of its word."""
    kind = RowKind.UPDATE_AFTER if pair[1] % DELETED_EVERY else RowKind.DELETE
    return Row.of_kind(kind, word=pair[0], n=pair[1])


def _marked_changes(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    return counted.flat_map(_marked, ROW).sink_to(make(settings))


def _marked(pair: tuple[str, int]) -> Iterator[Row]:
    change = change_of(pair)
    yield change
    if change.get_row_kind() is RowKind.DELETE:
        yield Row.of_kind(RowKind.UPDATE_AFTER, word=f"{pair[0]}{GONE}", n=pair[1])


def _parted(counted: Any, make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    rows = counted.map(lambda pair: Row(source=pair[0].partition("-")[0], word=pair[0], n=pair[1]), PARTED)
    return rows.sink_to(make(settings))


def _of_tables(kind: str, format_name: str) -> Callable[[dict[str, Any]], Any]:
    def make(settings: dict[str, Any]) -> Any:
        builder = _BUILDERS[format_name](settings, kind)
        if kind == "overwrites":
            return builder.with_row_type(PARTED).with_partition_by("source").with_overwrite().build()
        builder = builder.with_row_type(ROW)
        return (builder.with_upsert_by("word") if kind == "upserts" else builder).build()

    return make


_SHAPES = {"appends": _rows, "upserts": _marked_changes, "overwrites": _parted}
TABLES = {f"{name} {kind}": (name, kind) for name in _BUILDERS for kind in _SHAPES}
SINKS: dict[str, tuple[Callable[..., Any], Callable[[dict[str, Any]], Any]]] = {
    "Kafka": (_lines, kafka_sink),
    "files": (_lines, file_sink),
    "PostgreSQL": (_pairs, sql_sink),
    "upsert": (_pairs, upsert_sink),
    "MariaDB": (_marked_changes, mariadb_sink),
    "upsert-Kafka": (_changes, upsert_kafka_sink),
    "Avro": (_rows, avro_sink),
    **{name: (_SHAPES[kind], _of_tables(kind, of)) for name, (of, kind) in TABLES.items()},
}
"""By name: how elements are made of counts, and the sink."""
FIRST_SINKS = ("Kafka", "files", "PostgreSQL", "upsert")


def attach(counted: Any, name: str, settings: dict[str, Any]) -> None:
    """Let counts go to a sink.

    Args:
        counted: Words with their counts.
        name: Which.
        settings: Of the job.
    """
    shape, make = SINKS[name]
    shape(counted, make, settings).uid(name)
