"""What `pystate check` says of functions that fail at their first element, or do nothing."""

from __future__ import annotations

import importlib.util
import inspect

import pytest

from pystate.common import Time, Types, WatermarkStrategy
from pystate.common.serialization import SimpleStringSchema
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.connectors.sql import SqlConnectionOptions, SqlSink, SqlSource
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.delta import DeltaSink, DeltaSource
from pystate.datastream.connectors.http import HttpSink
from pystate.datastream.connectors.hybrid_source import HybridSource
from pystate.datastream.connectors.iceberg import IcebergSink, IcebergSource
from pystate.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    UpsertKafkaRecordSerializationSchema,
    ValueFieldsStrategy,
)
from pystate.datastream.connectors.mqtt import MqttConnectionOptions, MqttSink, MqttSource
from pystate.datastream.connectors.redis import RedisSink
from pystate.datastream.formats.avro import AvroRowSerializationSchema
from pystate.datastream.formats.csv import CsvRowSerializationSchema
from pystate.datastream.formats.json import JsonRowSerializationSchema
from pystate.datastream.functions import KeyedProcessFunction, MapFunction, ProcessFunction
from pystate.datastream.state import ValueStateDescriptor
from pystate.datastream.window import TumblingEventTimeWindows
from pystate.runtime.driver.program.wrong_functions import wrong_functions

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class ForgetsToYield(KeyedProcessFunction):
    def process_element(self, value, ctx):
        value[1] + 1


class YieldsFromTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        yield timestamp


class OnlyRaises(KeyedProcessFunction):
    def process_element(self, value, ctx):
        raise ValueError(value)


class ReturnsAList(ProcessFunction):
    def process_element(self, value, ctx):
        return [value]


class LacksContext(KeyedProcessFunction):
    def process_element(self, value):
        yield value


class OpensWithNothing(MapFunction):
    def open(self):
        pass

    def map(self, value):
        return value


class TakesAnything(MapFunction):
    def open(self, *_):
        pass

    def map(self, *values, **_):
        return values[0]


class TimersWithoutKey(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(5)
        yield value


class NeverFires(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(5)
        yield value


class WritesInOpen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.seen.update(0)

    def process_element(self, value, ctx):
        yield value


class WritesAField(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.names = {}
        self.names.update(a=1)

    def process_element(self, value, ctx):
        yield value


def by_set(value):
    return {value[0]}


def by_name(value):
    names = {value[0]: 1}
    return next(iter(names))


def one_part(value):
    return (value[0],)


def in_windows(stream):
    keyed = stream.key_by(lambda value: value[0])
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(lambda one, other: one)


def timed(stream):
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
    )


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def keyed(function):
    return lambda stream: stream.key_by(lambda value: value[0]).process(function)


@pytest.mark.parametrize(
    ("build", "fails", "message", "named"),
    [
        (lambda s: s.map(lambda one, other: one), True, "missing a required argument: 'other'", None),
        (lambda s: s.key_by(by_name).reduce(lambda one: one), True, "'Reduce' is called with (one, other)", None),
        (keyed(LacksContext()), True, "process_element() of 'KeyedProcess' is called", LacksContext.process_element),
        (lambda s: s.map(OpensWithNothing()), True, "open() of 'Map' is called with", OpensWithNothing.open),
        (lambda s: s.map(one_part, output_type=PAIR), True, "returns 1 of the 2 fields", one_part),
        (lambda s: s.key_by(by_set).reduce(lambda one, other: one), True, "key_by() gets a set", by_set),
        (lambda s: s.process(TimersWithoutKey()), True, "timers on a stream without", TimersWithoutKey.process_element),
        (keyed(NeverFires()), False, "has no on_timer()", NeverFires.process_element),
        (keyed(WritesInOpen()), True, "uses keyed state in open()", WritesInOpen.open),
        (keyed(ForgetsToYield()), False, "never yields: nothing comes out", ForgetsToYield.process_element),
        (in_windows, True, "nothing gives the elements of 'Collection Source' a timestamp", None),
        (lambda s: in_windows(s.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())),
         True, "nothing gives the elements of", None),
    ],
)  # fmt: skip
def test_what_fails_or_is_in_vain_whatever_comes(build, fails, message, named):
    (wrong,) = found(build)
    assert wrong.fails is fails
    assert message in wrong.error.message
    file, _, line = wrong.place.rpartition(", line ")
    assert file == __file__
    if named is not None:
        lines, first = inspect.getsourcelines(named)
        assert first <= int(line) < first + len(lines)


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map(TakesAnything()),
        lambda s: s.map(str),
        lambda s: s.map(lambda value, rest=None: (value, rest), output_type=PAIR),
        lambda s: s.map(lambda value: (*value, 1), output_type=PAIR),
        lambda s: s.key_by(by_name).reduce(max),
        lambda s: in_windows(timed(s)),
        lambda s: s.process(ReturnsAList()),
        keyed(YieldsFromTimers()),
        keyed(OnlyRaises()),
        keyed(WritesAField()),
    ],
)
def test_what_may_be_right_is_not_told(build):
    assert found(build) == []


def found(build):
    environment = StreamExecutionEnvironment.get_execution_environment()
    build(environment.from_collection([("a", 1)], type_info=PAIR)).print()
    return list(wrong_functions(environment._graph()))


WRITTEN = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.LONG()])
AVRO = (
    """{"type": "record", "name": "r", "fields": [{"name": "name", "type": "string"}, {"name": "count", "type": "long"}]}"""
)
SCHEMAS = {
    "json": JsonRowSerializationSchema.builder().with_type_info(WRITTEN).build(),
    "csv": CsvRowSerializationSchema.Builder(WRITTEN).build(),
    "avro": AvroRowSerializationSchema(avro_schema_string=AVRO),
    "text": SimpleStringSchema(),
}


def written_as(schema, type_info):
    def build(stream):
        record = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SCHEMAS[schema])
        sink = KafkaSink.builder().set_bootstrap_servers("h:9").set_record_serializer(record.build()).build()
        return stream.map(str, output_type=type_info).sink_to(sink)

    return build


@pytest.mark.parametrize("schema", ["json", "csv", "avro"])
@pytest.mark.parametrize(
    ("type_info", "fits"),
    [
        (WRITTEN, True),
        (Types.ROW_NAMED(["count", "name"], [Types.LONG(), Types.STRING()]), True),
        (Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()]), True),
        (PAIR, True),
        (Types.PICKLED_BYTE_ARRAY(), True),
        (Types.STRING(), False),
        (Types.LONG(), False),
        (Types.TUPLE([Types.STRING()]), False),
        (Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.LONG()]), False),
        (Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.STRING()]), False),
    ],
)
def test_the_rows_that_a_sinks_schema_takes(schema, type_info, fits):
    assert_fits(written_as(schema, type_info), fits)


@pytest.mark.parametrize(("type_info", "fits"), [(Types.STRING(), True), (None, True), (PAIR, False), (Types.LONG(), False)])
def test_the_texts_that_a_sinks_schema_takes(type_info, fits):
    assert_fits(written_as("text", type_info), fits)


@pytest.mark.parametrize("include", ValueFieldsStrategy)
@pytest.mark.parametrize(("type_info", "fits"), [(WRITTEN, True), (Types.ROW_NAMED(["count"], [Types.LONG()]), False)])
def test_a_schema_of_upserts_takes_whole_rows_whichever_of_their_fields_its_values_have(include, type_info, fits):
    schema = UpsertKafkaRecordSerializationSchema(
        "t", WRITTEN, ["name"], SimpleStringSchema(), SimpleStringSchema(), include
    )
    sink = KafkaSink.builder().set_bootstrap_servers("h:9").set_record_serializer(schema).build()
    assert_fits(lambda stream: stream.map(str, output_type=type_info).sink_to(sink), fits)


def assert_fits(build, fits):
    wrong = wrong_in(build)
    assert [one.error.message.partition(" takes ")[0] for one in wrong] == (
        [] if fits else ["The sink's serialization schema"]
    )
    assert all(one.place.startswith(f"{__file__}, line ") for one in wrong)


def to_delta(**columns):
    def build(stream):
        builder = DeltaSink.for_table("/tables/t")  # nothing is there
        for name, of in columns.items():
            builder = getattr(builder, f"with_{name}")(*of)
        stream.map(str, output_type=WRITTEN).sink_to(builder.build())

    return build


def to_iceberg(*columns):
    sink = IcebergSink.for_table("db.t").with_partition_by(*columns).build()
    return lambda stream: stream.map(str, output_type=WRITTEN).sink_to(sink)


BROKER = MqttConnectionOptions("mqtt://host")
DATABASE = SqlConnectionOptions(url_variable="DATABASE")


def to_service(builder):
    return lambda stream: stream.sink_to(builder.build())


def read_from(source):
    def build(stream):
        environment = stream.get_execution_environment()
        environment.from_source(source(), WatermarkStrategy.no_watermarks(), "source").print()

    return build


TABLE_SINKS = [
    (to_delta(upsert_by=["name"], partition_by=["name"]), None),
    (to_delta(sort_by=["count"]), None),
    (to_delta(upsert_by=["id"]), (True, "The rows have no id by which they replace others.")),
    (to_delta(sort_by=["id"]), (True, "The rows have no id to sort by.")),
    (to_delta(partition_by=["day"]), (False, "The rows have no day to partition the table by.")),
    (to_iceberg("name", "bucket(4, count)"), None),
    (to_iceberg("bucket(4, id)"), (False, "The rows have no id to partition the table by.")),
]


@pytest.mark.parametrize(("build", "told"), TABLE_SINKS)
def test_the_columns_of_tables(build, told):
    found = wrong_in(build)
    assert [(one.fails, one.error.message) for one in found] == ([] if told is None else [told])
    assert all(one.place.startswith(f"{__file__}, line ") for one in found)


@pytest.mark.parametrize(
    ("build", "module", "extra", "in_slots"),
    [
        (to_delta(), "deltalake", "delta", True),
        (to_iceberg("name"), "pyiceberg", "iceberg", True),
        (written_as("json", WRITTEN), "confluent_kafka", "kafka", True),
        (to_service(RedisSink.builder().set_url("redis://host").set_key(0).set_value(str)), "redis", "redis", True),
        (to_service(HttpSink.builder().set_url("http://host/")), "urllib3", "http", True),
        (to_service(MqttSink.builder().set_connection(BROKER).set_topic("t").set_value(str)), "paho.mqtt", "mqtt", True),
        (to_service(SqlSink.builder().set_url_variable("DATABASE").set_table("t").set_columns("a")),
         "sqlalchemy", "sql", True),
        (read_from(lambda: MqttSource.builder().set_connection(BROKER).set_client_id("c").set_topics("t").build()),
         "paho.mqtt", "mqtt", False),
        (read_from(lambda: DeltaSource.for_bounded_row_data("/t").with_row_type(WRITTEN).build()),
         "deltalake", "delta", False),
        (read_from(lambda: HybridSource.builder(SqlSource(DATABASE, "SELECT 1", WRITTEN))
         .add_source(IcebergSource.for_table("db.t").with_row_type(WRITTEN).build()).build()),
         "pyiceberg", "iceberg", False),
    ],
)  # fmt: skip
def test_a_client_that_is_not_installed(monkeypatch, build, module, extra, in_slots):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == module else there(name, *rest))
    (wrong,) = wrong_in(build)
    assert wrong.fails
    assert wrong.in_slots is in_slots, "of sources the driver asks, too"
    assert "installed" in wrong.error.message
    assert wrong.error.hint.startswith(f"pip install 'pystate-spark[{extra}]'")


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"compression.type": "lz4"}, None),
        ({"compresion.type": "lz4"}, 'No such configuration property: "compresion.type"'),
        ({"acks": "seven"}, "Invalid value for configuration property"),
    ],
)
def test_properties_that_kafkas_client_refuses(properties, told):
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    schema.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers("host:9092").set_record_serializer(schema.build())
    for key, value in properties.items():
        builder.set_property(key, value)
    found = wrong_in(lambda stream: stream.map(str, output_type=Types.STRING()).sink_to(builder.build()))
    assert [told in one.error.message for one in found] == ([] if told is None else [True])


def wrong_in(build):
    environment = StreamExecutionEnvironment.get_execution_environment()
    build(environment.from_collection([("a", 1)], type_info=PAIR))
    return list(wrong_functions(environment._graph()))
