"""Programs that read Kafka in slots, which import them."""

from __future__ import annotations

import time

from pystate.common import Types
from pystate.common.serialization import SimpleStringSchema
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.datastream import KeyedProcessFunction
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.functions import MapFunction
from pystate.datastream.state import ValueStateDescriptor

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def builder(address, start=EARLIEST, schema=None):
    made = KafkaSource.builder().set_bootstrap_servers(address).set_starting_offsets(start)
    return made.set_value_only_deserializer(schema or SimpleStringSchema())


class Key(SimpleStringSchema):
    """The word of `word:count`."""

    def serialize(self, element):
        return super().serialize(element.partition(":")[0])


def sink(address, topic, guarantee=DeliveryGuarantee.EXACTLY_ONCE):
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Key())
    schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
    made = KafkaSink.builder().set_bootstrap_servers(address).set_delivery_guarantee(guarantee)
    return made.set_record_serializer(schema).build()


class Count(KeyedProcessFunction):
    """Counts words: `word:count`."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


class Slowly(MapFunction):
    """Hands elements on, not too fast."""

    def __init__(self, seconds):
        self.seconds = seconds

    def map(self, value):
        time.sleep(self.seconds)
        return value


def itself(value):
    return value


def counting(source, address, out, seconds=0.0):
    """Return the program: words of one topic, counted by key into another, exactly once."""

    def program(environment):
        words = environment.from_source(source, None, "words").uid("words")
        if seconds:
            words = words.map(Slowly(seconds), Types.STRING())
        counted = words.key_by(itself, Types.STRING()).process(Count(), Types.STRING()).uid("count")
        counted.sink_to(sink(address, out)).uid("out")

    return program


def printing(source, strategy=None):
    """Return the program: prints what a source gives."""

    def program(environment):
        environment.from_source(source, strategy, "in").uid("in").print()

    return program


class Timers(KeyedProcessFunction):
    """Fires at the time of each element."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        yield from ()

    def on_timer(self, timestamp, ctx):
        yield f"fired:{timestamp}"


def _one(value):
    return "one"


def firing(source, strategy=None):
    """Return the program: prints the times at which timers fire."""

    def program(environment):
        chosen = strategy or WatermarkStrategy.for_monotonous_timestamps()
        timed = environment.from_source(source, chosen, "timed").uid("timed")
        timed.key_by(_one, Types.STRING()).process(Timers(), Types.STRING()).uid("timers").print()

    return program
