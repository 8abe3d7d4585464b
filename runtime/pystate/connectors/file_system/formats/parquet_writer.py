"""Writes rows to Parquet files, by Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pystate.common.serialization import BulkWriter, BulkWriterFactory
from pystate.common.type_info import TypeInformation
from pystate.connectors.arrow_rows import ArrowRows

_ROWS_AT_ONCE = 4096
_ROW_GROUP_BYTES = 32 << 20


class ParquetWriterFactory(BulkWriterFactory):
    """Makes writers of Parquet files.

    Args:
        row_type: A named ROW: the columns.

    Raises:
        JobGraphError: It isn't one, or has a type that Parquet doesn't support.
    """

    can_be_concatenated = False

    def __init__(self, row_type: TypeInformation) -> None:
        ArrowRows(row_type)
        self.row_type = row_type

    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return the writer of one file."""
        return _ParquetWriter(stream, self)


class _ParquetWriter(BulkWriter):
    def __init__(self, stream: IO[bytes], factory: ParquetWriterFactory) -> None:
        self._arrow = ArrowRows(factory.row_type)
        self._rows: list[Sequence[Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._sink = pa.PythonFile(stream, mode="w")
        self._writer = pq.ParquetWriter(self._sink, self._arrow.schema, compression="snappy")

    def add_element(self, element: Any) -> None:
        """Add a row."""
        self._rows.append(self._arrow.values(element))
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._to_arrow()

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._to_arrow()
        batches, self._batches, self._bytes = self._batches, [], 0
        if batches:
            self._writer.write_table(pa.Table.from_batches(batches))

    def finish(self) -> None:
        """Write the footer."""
        self._writer.close()
        self._sink.flush()

    def _to_arrow(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        batch = self._arrow.batch(rows)
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self.flush()
