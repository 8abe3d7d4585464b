"""Writes rows to CSV files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, Any

from pystate.common.errors import RecordError
from pystate.common.row import Row
from pystate.common.serialization import BulkWriter, BulkWriterFactory
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.csv_text import CsvText
from pystate.core.records.codec import shown
from pystate.core.records.printed import java_double, java_float

_BYTES_AT_ONCE = 1 << 20


class CsvWriterFactory(BulkWriterFactory):
    """Makes writers of CSV files.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self.schema = schema
        self.can_be_concatenated = not schema.use_header

    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return the writer of one file."""
        return _CsvWriter(stream, self.schema)


class _CsvWriter(BulkWriter):
    def __init__(self, stream: IO[bytes], schema: CsvSchema) -> None:
        self._stream = stream
        self._row_type = schema.row_type
        self._names = schema.row_type.row_names
        self._texts = [
            _field(part, schema.null_value, schema.array_separators.get(name, ";"))
            for name, part in zip(schema.row_type.get_field_names(), schema.row_type.elements, strict=True)
        ]
        self._null = schema.null_value
        self._as_they_are = all(
            part.kind is not TypeKind.LIST and part.kind not in _SHOWN for part in schema.row_type.elements
        )
        self._buffer = io.StringIO()
        self._rows = CsvText(
            self._buffer.write,
            schema.column_separator,
            schema.line_separator,
            schema.quote_char,
            schema.escape_char,
            comments=schema.allow_comments,
        )
        if schema.use_header:
            self._rows.row(schema.row_type.get_field_names())

    def add_element(self, element: Any) -> None:
        """Add a row."""
        values = element.values_as(self._names) if isinstance(element, Row) else element
        if not isinstance(values, (tuple, list)) or len(values) != len(self._texts):
            message = f"{shown(element)} is no {self._row_type.name}."
            raise RecordError(message, hint="return a Row or a tuple of all columns")
        if not self._as_they_are or (self._null and None in values):
            values = [text(value) for text, value in zip(self._texts, values, strict=True)]
        try:
            self._rows.row(values)
        except ValueError as error:
            message = f"{shown(element)} can't stand in a CSV file: {error}"
            raise RecordError(message, hint="set_quote_char() or set_escape_char() of the schema") from error
        if self._buffer.tell() >= _BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        self._stream.write(self._buffer.getvalue().encode())
        self._buffer.seek(0)
        self._buffer.truncate()

    def finish(self) -> None:
        """Write the rest; CSV has no footer."""
        self.flush()


def _field(part: TypeInformation, null_value: str, separator: str) -> Callable[[Any], str]:
    """Return a formatter of a column's values."""
    if part.kind is TypeKind.LIST:
        of_element = _field(part.elements[0], null_value, separator)
        return lambda value: null_value if value is None else separator.join(map(of_element, value))
    show = _SHOWN.get(part.kind, str)
    return lambda value: null_value if value is None else show(value)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


_SHOWN: dict[TypeKind, Callable[[Any], str]] = {
    TypeKind.BOOLEAN: _boolean,
    TypeKind.DOUBLE: java_double,
    TypeKind.FLOAT: java_float,
}
