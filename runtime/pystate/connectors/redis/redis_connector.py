"""Redis, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class RedisConnector(Connector):
    """Redis, Valkey, and what else speaks their protocol."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding("redis", "Redis", "redis", (5, 0), title="redis-py")
