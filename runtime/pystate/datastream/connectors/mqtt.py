"""Brokers that speak MQTT 5: a sink and a source."""

from __future__ import annotations

from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.mqtt import (
    MQTT_MESSAGE,
    MqttConnectionOptions,
    MqttSink,
    MqttSinkBuilder,
    MqttSource,
    MqttSourceBuilder,
)

__all__ = [
    "MQTT_MESSAGE",
    "MqttConnectionOptions",
    "MqttSink",
    "MqttSinkBuilder",
    "MqttSource",
    "MqttSourceBuilder",
    "RefusedElements",
]
