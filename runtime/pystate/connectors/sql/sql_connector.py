"""SQL databases, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class SqlConnector(Connector):
    """Databases that SQLAlchemy talks to."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding(
            "sql", "databases", "sqlalchemy", (2, 0), title="SQLAlchemy", also=", and your database's driver"
        )
