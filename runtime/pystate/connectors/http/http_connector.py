"""Services that speak HTTP, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class HttpConnector(Connector):
    """What takes elements by POST, or resources by PUT and DELETE."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding("http", "writing to HTTP", "urllib3", (2, 0))
