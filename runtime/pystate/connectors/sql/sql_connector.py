"""SQL databases, for what knows no system by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING

from pystate.common.distribution import pip_install
from pystate.common.overrides import override
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding, ok, warn

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class SqlConnector(Connector):
    """Databases that SQLAlchemy talks to."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        if importlib.util.find_spec("sqlalchemy") is None:
            yield ok("sql", f"databases: {pip_install('sql')}, and your database's driver")
            return
        installed = version("sqlalchemy")
        if int(installed.partition(".")[0]) < 2:
            yield warn("sql", f"SQLAlchemy {installed} is installed, jobs need 2.0 or newer", pip_install("sql"))
            return
        yield ok("sql", f"databases: SQLAlchemy {installed} is installed")
