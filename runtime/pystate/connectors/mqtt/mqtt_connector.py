"""MQTT, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class MqttConnector(Connector):
    """Brokers that speak MQTT 5."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding("mqtt", "MQTT", "paho-mqtt", (2, 1), module="paho.mqtt")
