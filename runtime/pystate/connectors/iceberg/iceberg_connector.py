"""Iceberg tables, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class IcebergConnector(Connector):
    """Iceberg tables."""

    @override
    def position_of_splits(self, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.lakehouse.table_split import position_of

        return position_of(splits, lambda file: "spec" in file)

    @override
    def position_of_source(self, found: Any, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.lakehouse.table_split import position_of_read_table

        return self.position_of_splits(splits) if splits else position_of_read_table(found)

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding("iceberg", "Iceberg tables", "pyiceberg", (0, 11))
