"""`DeltaSink`: appends a stream to a Delta table, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.connectors.client_package import client_findings
from pystate.connectors.delta.delta_client import NEEDED, table_uri
from pystate.connectors.delta.delta_staging import DeltaStaging, make_or_check
from pystate.connectors.early_check import EarlyFinding
from pystate.connectors.lakehouse.overwrites import OverwritingTableSink
from pystate.connectors.lakehouse.table_sink import TableSink, TableSinkBuilder, TableSinkSettings

_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "none")


class DeltaSink(TableSink):
    """Appends rows to a Delta table; made by `for_table`.

    Args:
        uri: The table.
        settings: How rows are written.
        storage_options: How its storage is reached.
        compression: Of Parquet files.
    """

    def __init__(
        self, uri: str, settings: TableSinkSettings, storage_options: Mapping[str, str], compression: str = "snappy"
    ) -> None:
        super().__init__(settings)
        self.uri = uri
        self._storage_options = dict(storage_options)
        self._compression = compression

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"DeltaSink({self.uri!r})"

    @staticmethod
    def for_table(uri: str) -> DeltaSinkBuilder:
        """Return a builder of a sink that appends to a table, which is made if it isn't there.

        Args:
            uri: A folder, or a URL of `s3://` and the like.
        """
        return DeltaSinkBuilder(uri)

    @override
    def _with(self, settings: TableSinkSettings) -> DeltaSink:
        return type(self)(self.uri, settings, self._storage_options, self._compression)

    @override
    def _make_or_check(self, rows: pa.Schema) -> DeltaStaging:
        of = self.settings
        return make_or_check(
            self.uri,
            self._storage_options,
            self._compression,
            rows,
            partition_by=of.partition_by,
            evolve=of.evolve,
            properties=of.properties,
            replaces=of.upserts is not None or of.overwrites,
            overwrites_partitions=of.overwrites,
        )

    @override
    def _client_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("deltalake", NEEDED, "delta", in_slots=True)

    @override
    def _open(self) -> DeltaStaging:
        return DeltaStaging(self.uri, self._storage_options, self._compression)


class OverwritingDeltaSink(OverwritingTableSink, DeltaSink):
    """Replaces partitions of a Delta table; made by `with_overwrite()` of the builder."""


class DeltaSinkBuilder(TableSinkBuilder):
    """Builds a `DeltaSink`.

    Args:
        uri: The table.
    """

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = table_uri(uri)
        self._storage_options: dict[str, str] = {}
        self._compression = "snappy"

    def with_storage_options(self, storage_options: Mapping[str, str]) -> DeltaSinkBuilder:
        """Set how the storage is reached, by deltalake's own keys: `{"AWS_ENDPOINT_URL": ..., "AWS_REGION": ...}`."""
        self._storage_options = dict(storage_options)
        return self

    def with_compression(self, compression: str) -> DeltaSinkBuilder:
        """Set how Parquet files are compressed: snappy, zstd, gzip, lz4 or none."""
        if compression not in _COMPRESSIONS:
            message = f"with_compression() takes {', '.join(_COMPRESSIONS)}, not {compression!r}."
            raise JobGraphError(message)
        self._compression = compression
        return self

    def build(self) -> DeltaSink:
        """Return the sink."""
        made = OverwritingDeltaSink if self._settings.overwrites else DeltaSink
        return made(self._uri, self._settings, self._storage_options, self._compression)
