"""Connectors to brokers that speak MQTT 5: a sink and a source (`pip install 'pystate-spark[mqtt]'`)."""

from pystate.connectors.mqtt.mqtt_connection import MqttConnectionOptions
from pystate.connectors.mqtt.mqtt_sink import MqttSink, MqttSinkBuilder
from pystate.connectors.mqtt.mqtt_source import MQTT_MESSAGE, MqttSource, MqttSourceBuilder

__all__ = [
    "MQTT_MESSAGE",
    "MqttConnectionOptions",
    "MqttSink",
    "MqttSinkBuilder",
    "MqttSource",
    "MqttSourceBuilder",
]
