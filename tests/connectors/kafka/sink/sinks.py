"""Sinks to a real broker, and what is seen of them outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema
from pystate.connectors.kafka.sink.kafka_sink import KafkaSink, KafkaSinkBuilder
from pystate.testing import SinkTestHarness


class Key(SimpleStringSchema):
    """What stands before the colon."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element.partition(":")[0])


def builder(kafka: Any, topic: str, guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE) -> KafkaSinkBuilder:
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Key())
    schema.set_value_serialization_schema(SimpleStringSchema())
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    return made.set_record_serializer(schema.build())


def values(kafka: Any, topic: str, isolation: str = "read_committed") -> list[str]:
    return [message.value().decode() for message in kafka.read(topic, isolation)]


class Crash(BaseException):
    """A process's end: nothing after it runs."""


class Steps:
    """Crashes at one step, and does what a test wants at another."""

    def __init__(self, crash: str | None = None) -> None:
        self.crash = crash
        self.then: Callable[[str], object] = lambda name: None

    def __call__(self, name: str) -> None:
        if name == self.crash:
            raise Crash(name)
        self.then(name)


def opened(sink: Any, snapshot: Any = None, **options: Any) -> SinkTestHarness:
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness
