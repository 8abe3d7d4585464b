"""`MqttSink`: publishes a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pystate.common.errors import ConfigurationError, RecordError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SerializationSchema
from pystate.common.text.bounded_text import shown
from pystate.connectors.async_sink.async_sink import AsyncSink, AsyncSinkBuilder
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.async_sink.request import Request, RequestClient
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.mqtt.mqtt_connection import NEEDED, MqttConnectionOptions
from pystate.connectors.mqtt.mqtt_request_client import MqttRequestClient

_LONGEST_TOPIC = 65_535


class MqttSink(AsyncSink, SupportsEarlyCheck):
    """Publishes a message for each element, which the broker has acknowledged at a checkpoint (QoS 1). Made by `builder()`.

    Args:
        connection: How to connect.
        topic: Makes the topic of an element.
        value: Makes the payload.
        retain: Whether the broker keeps the latest message of each topic.
        settings: Sizes, times, retries.
        refused: What is done with elements that the broker refuses.
    """

    def __init__(
        self,
        connection: MqttConnectionOptions,
        topic: Callable[[Any], str],
        value: Callable[[Any], bytes | str],
        *,
        retain: bool,
        settings: AsyncSinkSettings,
        refused: RefusedElements,
    ) -> None:
        super().__init__(settings, refused)
        self.connection = connection
        self.retain = retain
        self._topic = topic
        self._value = value

    @staticmethod
    def builder() -> MqttSinkBuilder:
        """Return a builder."""
        return MqttSinkBuilder()

    @property
    @override
    def guarantee_reason(self) -> str:
        kept = "; the retained message of each topic ends the same" if self.retain else ""
        return f"acknowledged at each checkpoint; what comes after it is published again after a failure{kept}"

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("paho.mqtt", NEEDED, "mqtt", in_slots=True)

    @override
    def shown(self) -> str:
        return self.connection.shown()

    @override
    def create_client(self) -> RequestClient:
        return MqttRequestClient(self.connection, self.settings.request_timeout_ms / 1000)

    @override
    def request_of(self, element: Any, timestamp: int | None) -> Request | None:
        kind = element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT
        if kind is not RowKind.INSERT and not self.retain:
            message = f"What is published only grows, and {shown(element)} is a {kind.name}."
            raise RecordError(message, hint="set_retain(True) has the broker keep the latest of each topic, and clear it")
        if kind is RowKind.UPDATE_BEFORE:
            return None
        topic = self._topic(element)
        if not isinstance(topic, str) or not topic or any(sign in topic for sign in "+#\0"):
            message = f"{shown(topic)} is no topic to publish to."
            raise RecordError(message, hint="it has neither + nor #, and isn't empty")
        payload = b"" if kind is RowKind.DELETE else self._value(element)
        if isinstance(payload, str):
            payload = payload.encode()
        size = len(topic.encode())
        if size > _LONGEST_TOPIC or not isinstance(payload, (bytes, bytearray)):
            message = f"The topic is too long, or the payload is neither bytes nor text: {shown(payload)}"
            raise RecordError(message, hint="set_value(...) makes bytes or text of an element")
        payload = bytes(payload)
        return Request(topic, (topic, payload, self.retain), size + len(payload), payload)


class MqttSinkBuilder(AsyncSinkBuilder):
    """Makes an `MqttSink`."""

    defaults = {"max_in_flight_requests": 1}

    def __init__(self) -> None:
        super().__init__()
        self._connection: MqttConnectionOptions | None = None
        self._topic: Callable[[Any], str] | None = None
        self._value: Callable[[Any], bytes | str] | None = None
        self._retain = False

    def set_connection(self, connection: MqttConnectionOptions) -> MqttSinkBuilder:
        """Set how to connect."""
        self._connection = connection
        return self

    def set_topic(self, topic: str | Callable[[Any], str]) -> MqttSinkBuilder:
        """Set the topic, or what makes it from an element."""
        self._topic = topic if callable(topic) else _Always(topic)
        return self

    def set_value(self, value: SerializationSchema | Callable[[Any], bytes | str]) -> MqttSinkBuilder:
        """Set what makes the payload."""
        self._value = value.serialize if isinstance(value, SerializationSchema) else value
        return self

    def set_retain(self, retain: bool) -> MqttSinkBuilder:  # noqa: FBT001 - as other builders
        """Have the broker keep the latest message of each topic for later subscribers; a DELETE clears it."""
        self._retain = retain
        return self

    def build(self) -> MqttSink:
        """Return the sink.

        Raises:
            ConfigurationError: A setting is missing, or they don't go together.
        """
        if self._connection is None or self._topic is None or self._value is None:
            message = "A sink of MQTT needs a connection, a topic, and what makes a payload."
            raise ConfigurationError(message, hint="set_connection(...), set_topic(...), set_value(SimpleStringSchema())")
        return MqttSink(
            self._connection,
            self._topic,
            self._value,
            retain=self._retain,
            settings=self._settings(),
            refused=self._refused,
        )


class _Always:
    """Returns the same topic for each element."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def __call__(self, _: Any) -> str:
        return self.topic
