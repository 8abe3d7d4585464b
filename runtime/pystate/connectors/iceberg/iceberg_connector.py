"""Iceberg tables, for what knows no system by name."""

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

_LEAST = (0, 11)


class IcebergConnector(Connector):
    """Iceberg tables."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        if importlib.util.find_spec("pyiceberg") is None:
            yield ok("iceberg", f"Iceberg tables: {pip_install('iceberg')}")
            return
        installed = version("pyiceberg")
        if tuple(map(int, installed.split(".")[:2])) < _LEAST:
            yield warn("iceberg", f"pyiceberg {installed} is installed, jobs need 0.11 or newer", pip_install("iceberg"))
            return
        yield ok("iceberg", f"Iceberg tables: pyiceberg {installed} is installed")
