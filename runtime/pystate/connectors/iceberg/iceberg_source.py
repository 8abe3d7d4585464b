"""`IcebergSource`: reads an Iceberg table, as it is or snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from pystate.common.overrides import override
from pystate.common.time import Duration, Instant
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.iceberg.iceberg_catalog import NEEDED, IcebergCatalog, checked_identifier
from pystate.connectors.iceberg.iceberg_reading import IcebergReading
from pystate.connectors.lakehouse.source_table import ChangeKind
from pystate.connectors.lakehouse.table_source import TableSource, TableSourceBuilder
from pystate.connectors.lakehouse.table_source_settings import StartKind, TableSourceSettings

_HINTS = {
    ChangeKind.DELETES: "streaming_skip_delete_snapshots()",
    ChangeKind.CHANGES: "streaming_skip_overwrite_snapshots()",
}
_INTERVAL_MS = 60_000


class StreamingStartingStrategy(Enum):
    """What a followed table is read from in a job that starts without a snapshot; Flink's names."""

    TABLE_SCAN_THEN_INCREMENTAL = "the table as it is, then what snapshots append"
    INCREMENTAL_FROM_LATEST_SNAPSHOT = "what snapshots append from now on"
    INCREMENTAL_FROM_EARLIEST_SNAPSHOT = "what snapshots append from the oldest one on that the table knows"


_STARTS = {
    StreamingStartingStrategy.TABLE_SCAN_THEN_INCREMENTAL: StartKind.SCAN,
    StreamingStartingStrategy.INCREMENTAL_FROM_LATEST_SNAPSHOT: StartKind.LATEST,
    StreamingStartingStrategy.INCREMENTAL_FROM_EARLIEST_SNAPSHOT: StartKind.EARLIEST,
}


class IcebergSource(TableSource, SupportsEarlyCheck):
    """Reads the rows of an Iceberg table; made by `for_table`.

    Args:
        identifier: The table's name in its catalog.
        catalog: The catalog.
        settings: How it is read.
    """

    def __init__(self, identifier: str, catalog: IcebergCatalog, settings: TableSourceSettings) -> None:
        super().__init__(settings)
        self.identifier = identifier
        self._catalog = catalog

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"IcebergSource({self.identifier!r}, {self._catalog!r})"

    @staticmethod
    def for_table(identifier: str) -> IcebergSourceBuilder:
        """Return a builder of a bounded source of a table; `streaming()` makes it follow the table.

        Args:
            identifier: Namespace and name: `db.counts`.
        """
        return IcebergSourceBuilder(identifier)

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("pyiceberg", NEEDED, "iceberg", in_slots=False)

    @override
    def open_table(self) -> IcebergReading:
        return IcebergReading(self._catalog, self.identifier)


class IcebergSourceBuilder(TableSourceBuilder):
    """Builds an `IcebergSource`.

    Args:
        identifier: Namespace and name of the table.

    Raises:
        JobGraphError: It isn't that.
    """

    def __init__(self, identifier: str) -> None:
        super().__init__(TableSourceSettings(interval_ms=_INTERVAL_MS, skip_hint=_HINTS))
        self._identifier = checked_identifier(identifier, "IcebergSource")
        self._catalog = IcebergCatalog("default", {})

    def with_catalog(self, name: str, properties: Mapping[str, str] | None = None) -> IcebergSourceBuilder:
        """Set the catalog, by pyiceberg's own properties; without it pyiceberg's configuration is asked for `default`.

        Args:
            name: pyiceberg's name of it.
            properties: `{"type": "rest", "uri": ...}`, `{"type": "sql", "uri": ..., "warehouse": ...}`, `{"type": "glue"}`.
        """
        self._catalog = IcebergCatalog(name, properties or {})
        return self

    def snapshot_id(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Read the table as of a snapshot; with `streaming()`, what that and later ones append."""
        return self._starting(StartKind.VERSION, version=snapshot_id)

    def as_of_timestamp(self, timestamp: Instant) -> IcebergSourceBuilder:
        """Read the table as it was at a time; with `streaming()`, what is appended at that time or later."""
        return self._starting_at(timestamp)

    def streaming(
        self, strategy: StreamingStartingStrategy = StreamingStartingStrategy.TABLE_SCAN_THEN_INCREMENTAL
    ) -> IcebergSourceBuilder:
        """Follow the table.

        Args:
            strategy: What is read first, unless a snapshot or time is set.
        """
        if (start := _STARTS[strategy]) is not StartKind.SCAN:
            self._starting(start)
        return self._set(follows=True)

    def monitor_interval(self, interval: Duration) -> IcebergSourceBuilder:
        """Set how often to look for new snapshots: 60 s."""
        return self._every(interval)

    def streaming_skip_delete_snapshots(self) -> IcebergSourceBuilder:
        """Leave out snapshots that only delete; without it they fail the job."""
        return self._skip(ChangeKind.DELETES)

    def streaming_skip_overwrite_snapshots(self) -> IcebergSourceBuilder:
        """Leave out snapshots that overwrite, also those that a merge or an upsert makes, with the rows that they add."""
        return self._skip(ChangeKind.CHANGES)

    def build(self) -> IcebergSource:
        """Return the source."""
        return IcebergSource(self._identifier, self._catalog, self._settings)
