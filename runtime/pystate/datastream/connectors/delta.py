"""Delta tables, in the style of PyFlink's `FileSink`; read and written by deltalake, without Spark's connector."""

from __future__ import annotations

from pystate.connectors.delta.delta_orphans import find_orphans, remove_orphans
from pystate.connectors.delta.delta_sink import DeltaSink, DeltaSinkBuilder
from pystate.connectors.delta.delta_source import DeltaBoundedSourceBuilder, DeltaContinuousSourceBuilder, DeltaSource
from pystate.connectors.lakehouse.table_lookup import TableLookup

__all__ = [
    "DeltaBoundedSourceBuilder",
    "DeltaContinuousSourceBuilder",
    "DeltaSink",
    "DeltaSinkBuilder",
    "DeltaSource",
    "TableLookup",
    "find_orphans",
    "remove_orphans",
]
