"""Rows that replace others in a topic, and what reads them: with a real broker, crashed at each step."""

from __future__ import annotations

import pytest

from pystate.common import Row, RowKind, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.sink.kafka_sink import KafkaSink
from pystate.connectors.kafka.upserts import UpsertBuffer
from pystate.datastream.connectors.kafka import (
    ConsumerRecord,
    UpsertKafkaRecordDeserializationSchema,
    UpsertKafkaRecordSerializationSchema,
    ValueFieldsStrategy,
)
from pystate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.connectors.kafka.sink.sinks import Crash, Steps, opened

ROW = Types.ROW_NAMED(["name", "id", "n"], [Types.STRING(), Types.LONG(), Types.LONG()])
KEY, REST = Types.ROW_NAMED(["id"], [Types.LONG()]), Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])


def writes(type_info):
    return JsonRowSerializationSchema.builder().with_type_info(type_info).build()


def reads(type_info):
    return JsonRowDeserializationSchema.builder().type_info(type_info).build()


def writer(topic, include=ValueFieldsStrategy.EXCEPT_KEY):
    value = REST if include is ValueFieldsStrategy.EXCEPT_KEY else ROW
    return UpsertKafkaRecordSerializationSchema(topic, ROW, ["id"], writes(KEY), writes(value), include)


def reader(include=ValueFieldsStrategy.EXCEPT_KEY):
    value = REST if include is ValueFieldsStrategy.EXCEPT_KEY else ROW
    return UpsertKafkaRecordDeserializationSchema(ROW, ["id"], reads(KEY), reads(value), include)


def change(kind, number, name="a", n=1):
    return Row.of_kind(kind, name=name, id=number, n=n)


def record(key, value):
    return ConsumerRecord("t", 0, 0, None, key, value)


@pytest.mark.parametrize("include", ValueFieldsStrategy)
def test_each_kind_of_row_becomes_its_record_and_comes_back(include):
    schema = writer("t", include)
    value = b'{"name": "a", "n": 1}' if include is ValueFieldsStrategy.EXCEPT_KEY else b'{"name": "a", "id": 7, "n": 1}'

    records = [schema.record_of(change(kind, 7), 5) for kind in RowKind]

    plain = [one and (one[1], one[2] and one[2].replace(b": ", b":").replace(b", ", b","), one[3]) for one in records]
    packed = value.replace(b": ", b":").replace(b", ", b",")
    key = records[0][1]
    assert plain == [(key, packed, 5), None, (key, packed, 5), (key, None, 5)]
    (row,), (gone,) = (list(reader(include).deserialize(record(one[1], one[2]))) for one in (records[0], records[3]))
    assert (row, gone) == (change(RowKind.UPDATE_AFTER, 7), change(RowKind.DELETE, 7, None, None))


def test_a_record_without_a_key_is_refused():
    with pytest.raises(RecordError, match="without a key"):
        list(reader().deserialize(record(None, b"{}")))


@pytest.mark.parametrize("keys", [[], ["nobody"], ["id", "id"]])
def test_key_fields_are_fields_of_the_row(keys):
    with pytest.raises(JobGraphError, match="key fields"):
        UpsertKafkaRecordSerializationSchema("t", ROW, keys, writes(KEY), writes(ROW))


def test_a_buffer_keeps_the_latest_record_of_each_key_and_is_written_when_it_is_full():
    buffer = UpsertBuffer(2)
    assert buffer.add(("t", b"a", b"1", None)) == buffer.add(("t", b"a", None, None)) == []
    assert buffer.add(("t", b"b", b"1", None)) == [("t", b"a", None, None), ("t", b"b", b"1", None)]
    assert buffer.drain() == []


def test_only_records_that_replace_others_are_reduced(kafka):
    schema = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_buffer_flush_max_rows(5)
    with pytest.raises(JobGraphError, match="replace others"):
        schema.set_record_serializer(_plain()).build()


def _plain():
    from tests.connectors.kafka.sink.sinks import KafkaRecordSerializationSchema, SimpleStringSchema  # noqa: PLC0415

    made = KafkaRecordSerializationSchema.builder().set_topic("t")
    return made.set_value_serialization_schema(SimpleStringSchema()).build()


CHANGES = [
    change(RowKind.INSERT, 1),
    change(RowKind.INSERT, 2),
    change(RowKind.UPDATE_BEFORE, 1),
    change(RowKind.UPDATE_AFTER, 1, "b", 2),
    change(RowKind.DELETE, 2, "x", 9),
]


def table_of(kafka, topic):
    """Return what readers of committed records make of a topic: rows by key; and how many records there are."""
    schema, rows, messages = reader(), {}, kafka.read(topic)
    for message in messages:
        for row in schema.deserialize(record(message.key(), message.value())):
            if row.get_row_kind() is RowKind.DELETE:
                rows.pop(row.id, None)
            else:
                rows[row.id] = (row.name, row.n)
    return rows, len(messages)


@pytest.mark.parametrize(("buffered", "count"), [(0, 4), (10, 2)])
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_compacted_topic_has_the_rows_that_are_there(kafka, guarantee, buffered, count):
    topic = kafka.new_topic(**{"cleanup_policy": "compact"})
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    made.set_record_serializer(writer(topic))
    if buffered:
        made.set_buffer_flush_max_rows(buffered)
    sink = made.build()
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:  # a process ends in the middle of its commit
        sink.step = steps = Steps("flushed")
        crashed = opened(sink)
        crashed.process_elements(CHANGES)
        snapshot = crashed.snapshot(1)
        with pytest.raises(Crash):
            crashed.notify_of_completed_checkpoint(1)
        steps.crash = None
        for _ in range(2):
            with opened(sink, snapshot):
                pass
    else:
        with opened(sink) as harness:
            harness.process_elements(CHANGES)
            harness.snapshot(1)
            harness.notify_of_completed_checkpoint(1)

    assert table_of(kafka, topic) == ({1: ("b", 2)}, count)
