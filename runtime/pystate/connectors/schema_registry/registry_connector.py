"""A schema registry, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pystate.common.overrides import override
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class SchemaRegistryConnector(Connector):
    """A schema registry."""

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        from pystate.connectors.schema_registry.registry_check import check_registry

        yield check_registry()
