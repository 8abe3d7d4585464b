"""Iceberg tables, in the style of PyFlink's `FileSink`; read and written by pyiceberg, without Spark's runtime."""

from __future__ import annotations

from pystate.connectors.iceberg.iceberg_orphans import find_orphans, remove_orphans
from pystate.connectors.iceberg.iceberg_sink import IcebergSink, IcebergSinkBuilder
from pystate.connectors.iceberg.iceberg_source import IcebergSource, IcebergSourceBuilder, StreamingStartingStrategy
from pystate.connectors.lakehouse.table_lookup import TableLookup

__all__ = [
    "IcebergSink",
    "IcebergSinkBuilder",
    "IcebergSource",
    "IcebergSourceBuilder",
    "StreamingStartingStrategy",
    "TableLookup",
    "find_orphans",
    "remove_orphans",
]
