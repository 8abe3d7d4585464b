"""`IcebergSink`: appends a stream to an Iceberg table, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pystate.common.overrides import override
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding
from pystate.connectors.iceberg.iceberg_catalog import NEEDED, IcebergCatalog, checked_identifier
from pystate.connectors.iceberg.iceberg_staging import IcebergStaging, make_or_check, parsed_transform
from pystate.connectors.lakehouse.overwrites import OverwritingTableSink
from pystate.connectors.lakehouse.table_sink import TableSink, TableSinkBuilder, TableSinkSettings


class IcebergSink(TableSink):
    """Appends rows to an Iceberg table; made by `for_table`.

    Args:
        identifier: The table's name in its catalog.
        catalog: The catalog.
        settings: How rows are written.
    """

    def __init__(self, identifier: str, catalog: IcebergCatalog, settings: TableSinkSettings) -> None:
        super().__init__(settings)
        self.identifier = identifier
        self._catalog = catalog

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"IcebergSink({self.identifier!r}, {self._catalog!r})"

    @staticmethod
    def for_table(identifier: str) -> IcebergSinkBuilder:
        """Return a builder of a sink that appends to a table, which is made if it isn't there.

        Args:
            identifier: Namespace and name: `db.counts`.
        """
        return IcebergSinkBuilder(identifier)

    @override
    def _with(self, settings: TableSinkSettings) -> IcebergSink:
        return type(self)(self.identifier, self._catalog, settings)

    @override
    def _make_or_check(self, rows: pa.Schema) -> IcebergStaging:
        of = self.settings
        return make_or_check(
            self._catalog,
            self.identifier,
            rows,
            partition_by=of.partition_by,
            evolve=of.evolve,
            properties=of.properties,
        )

    @override
    def _client_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("pyiceberg", NEEDED, "iceberg", in_slots=True)

    @override
    def _partition_columns(self) -> list[str]:
        return [parsed_transform(one)[0] for one in self.settings.partition_by or ()]

    @override
    def _open(self) -> IcebergStaging:
        return IcebergStaging(self._catalog, self.identifier)


class OverwritingIcebergSink(OverwritingTableSink, IcebergSink):
    """Replaces partitions of an Iceberg table; made by `with_overwrite()` of the builder."""


class IcebergSinkBuilder(TableSinkBuilder):
    """Builds an `IcebergSink`.

    Args:
        identifier: Namespace and name of the table.

    Raises:
        JobGraphError: It isn't that.
    """

    def __init__(self, identifier: str) -> None:
        super().__init__()
        self._identifier = checked_identifier(identifier, "IcebergSink")
        self._catalog = IcebergCatalog("default", {})

    def with_catalog(self, name: str, properties: Mapping[str, str] | None = None) -> IcebergSinkBuilder:
        """Set the catalog, by pyiceberg's own properties; without it pyiceberg's configuration is asked for `default`.

        Args:
            name: pyiceberg's name of it.
            properties: `{"type": "rest", "uri": ...}`, `{"type": "sql", "uri": ..., "warehouse": ...}`, `{"type": "glue"}`.
        """
        self._catalog = IcebergCatalog(name, properties or {})
        return self

    @override
    def with_partition_by(self, *columns: str) -> IcebergSinkBuilder:
        for column in columns:
            parsed_transform(column)
        return super().with_partition_by(*columns)

    def build(self) -> IcebergSink:
        """Return the sink."""
        made = OverwritingIcebergSink if self._settings.overwrites else IcebergSink
        return made(self._identifier, self._catalog, self._settings)
