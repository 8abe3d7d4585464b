"""Iceberg tables, in the style of PyFlink's `FileSink`; read and written by pyiceberg, without Spark's runtime."""

from __future__ import annotations

from pystate.connectors.iceberg.iceberg_sink import IcebergSink, IcebergSinkBuilder

__all__ = ["IcebergSink", "IcebergSinkBuilder"]
