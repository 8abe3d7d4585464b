"""Reads CSV files in slots: RFC 4180, by Python's parser; invalid input is rejected."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.connectors.bad_records import why
from pystate.connectors.file_system.formats import text_values
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.csv_text import escape_of
from pystate.connectors.file_system.formats.file_content import UTF_8, TextEncoding, content_of
from pystate.connectors.file_system.formats.lines import Lines
from pystate.connectors.file_system.formats.split_format import FileRecords, RowRecords, SplitFormat
from pystate.core.records.codec import RecordCodec

_SPACE = "".join(map(chr, range(33)))
"""What Java's `trim` takes away."""

_LONGEST_FIELD = 64 << 20
"""Characters. A quote that nobody closes ends there, and not in the memory of the slot."""

ReadColumn = Callable[[Sequence[str]], list[Any]]


class CsvFormat(SplitFormat):
    """Reads rows from CSV files.

    Args:
        schema: The columns.
        zone: The time zone of timestamps without one.
        encoding: Of their texts.
    """

    def __init__(self, schema: CsvSchema, zone: str, encoding: TextEncoding = UTF_8) -> None:
        self._schema = schema
        self._zone = zone
        self._encoding = encoding
        names, parts = schema.row_type.get_field_names(), schema.row_type.elements
        self.element_type = Types.ROW_NAMED(names, [_column_type(part) for part in parts])

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the rows.

        Raises:
            RecordError: The header has to match the schema, and doesn't.
        """
        schema = self._schema
        lines = Lines(self._encoding.as_utf8(content_of(file, name)), position)
        rows = CsvRows(lines, schema, self._encoding)
        if position == 0 and schema.use_header:
            self._read_header(rows, name)
        columns = [self._column(index, part) for index, part in enumerate(schema.row_type.elements)]
        return _CsvRecords(rows, name, RecordCodec(self.element_type, name), columns)

    def _column(self, index: int, part: TypeInformation) -> ReadColumn:
        """Return a parser of fields; an empty field is null, unless it is a string and `null_value` is set."""
        separator = self._schema.array_separators.get(self._schema.row_type.get_field_names()[index], ";")
        read, null = _column(part, separator, self._zone), self._schema.null_value
        if part.kind is TypeKind.STRING:
            return lambda fields: [None if field == null else field for field in fields]

        def read_all(fields: Sequence[str]) -> list[Any]:
            present = [field for field in fields if field and field != null]
            values = read(present)
            if len(values) == len(fields):
                return values
            rest = iter(values)
            return [next(rest) if field and field != null else None for field in fields]

        return read_all

    def _read_header(self, rows: CsvRows, name: str) -> None:
        try:
            header = rows.read(1)
        except ValueError as error:
            message = f"The header of {name} is no row of CSV: {error}."
            raise RecordError(message, hint="mend the file") from error
        wanted = self._schema.row_type.get_field_names()
        if header and self._schema.strict_headers and [one.lower() for one in header[0]] != [one.lower() for one in wanted]:
            message = f"The header of {name} is {header[0]}, not {list(wanted)}."
            raise RecordError(message, hint="mend the file or the schema, or leave set_strict_headers() out")


class CsvRows(Iterator[str]):
    """Parses lines into rows of fields. Quoted fields may span lines.

    Args:
        lines: The lines of the file.
        schema: The dialect of the file.
        encoding: Of their texts.

    Attributes:
        position: Where the next row begins.
        first_line: The first line of the current row, for errors.
    """

    def __init__(self, lines: Lines, schema: CsvSchema, encoding: TextEncoding) -> None:
        self._lines = lines
        self._encoding = encoding
        self._comments = schema.allow_comments
        self._separator = schema.column_separator
        self._at_hand: Iterator[tuple[bytes, bytes]] = iter(())
        self._begins = True
        self.position = lines.position
        self.first_line = b""
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
        escape = escape_of(schema.escape_char, schema.quote_char)
        self._marks = [mark.encode() for mark in (schema.quote_char, escape, "#" if schema.allow_comments else None) if mark]
        self._dialect: dict[str, Any] = {
            "delimiter": schema.column_separator,
            "quotechar": schema.quote_char,
            "quoting": csv.QUOTE_NONE if schema.quote_char is None else csv.QUOTE_MINIMAL,
            "escapechar": escape,
            "strict": True,
        }
        self._reader = csv.reader(self, **self._dialect)

    def read(self, most: int) -> list[list[str]]:
        """Return the rows that begin in the next lines, at least one; none at the end.

        Raises:
            ValueError: The input isn't a valid row.
        """
        rows: list[list[str]] = []
        while not rows and (lines := self._lines.read(most)):
            plain = self._rows_of_plain(lines)
            if plain is not None:
                rows = plain
                self.position = self._lines.position
                continue
            self._at_hand = zip(lines, self._lines.ends, strict=True)
            try:
                while (row := self._next_row()) is not None:
                    rows.append(row)
            except csv.Error as error:
                message = _IN_OTHER_WORDS.get(str(error), str(error))
                raise ValueError(message) from error
            self.position = self._lines.position
        return rows

    def _rows_of_plain(self, lines: list[bytes]) -> list[list[str]] | None:
        """Return the rows of lines of which each is a row of its own; None if a mark or a wrong byte is among them."""
        joined = b"\n".join(lines)
        if any(mark in joined for mark in self._marks):
            return None
        try:
            texts = joined.decode().split("\n")
            return list(
                csv.reader([text for text in texts if text[:1] > " " or not self._has_no_row(text)], **self._dialect)
            )
        except (UnicodeDecodeError, csv.Error):
            return None  # the line is found and named when they are read one by one

    def _next_row(self) -> list[str] | None:
        self._begins = True
        return next(self._reader, None)

    def __next__(self) -> str:
        """Return the next line with its end; stops before a row that begins after the current lines."""
        while True:
            line, end = next(self._at_hand, None) or self._next_line()
            text = self._encoding.text(line)
            if self._begins:
                if self._has_no_row(text):
                    continue
                self._begins = False
                self.first_line = line
            return text + end.decode()

    def _next_line(self) -> tuple[bytes, bytes]:
        lines = [] if self._begins else self._lines.read(1)
        if not lines:
            raise StopIteration
        return lines[0], self._lines.ends[0]

    def _has_no_row(self, text: str) -> bool:
        if self._comments and text.startswith("#"):
            return True
        return text[:1] <= " " and self._separator not in text and not text.strip(_SPACE)

    def joined(self, row: list[str]) -> bytes:
        """Return the fields of a row as a line, which may be written otherwise in the file."""
        return self._separator.join(row).encode()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


_IN_OTHER_WORDS = {
    "unexpected end of data": "a quote isn't closed up to the end of the file",
    f"field larger than field limit ({_LONGEST_FIELD})": f"a quote isn't closed within {_LONGEST_FIELD} characters",
}


class _CsvRecords(RowRecords):
    def __init__(self, rows: CsvRows, name: str, codec: RecordCodec, columns: list[ReadColumn]) -> None:
        super().__init__(name, codec, "CSV", rows.position)
        self._rows = rows
        self._columns = columns

    def read(self, most: int) -> list[Any] | None:
        try:
            rows = self._rows.read(most)
        except ValueError as error:
            raise self.refused(self._rows.first_line, error) from error
        elements = self._elements(rows) if rows else None
        self.position = self._rows.position
        return elements

    def _elements(self, rows: list[list[str]]) -> list[Any]:
        try:
            fields = zip(*rows, strict=True)
            return self.decode([read(column) for read, column in zip(self._columns, fields, strict=True)])
        except (ValueError, OverflowError, TypeError) as error:
            if len(rows) > 1:  # row by row, to name the one that fails
                return [element for row in rows for element in self._elements([row])]
            row, wanted = rows[0], len(self._columns)
            reason: Exception = error
            if len(row) != wanted:
                reason = ValueError(f"it has {len(row)} fields, not {wanted}")
            if self.refuse is not None:  # where each row begins isn't known here, but where the lines do that it is among
                self.refuse(self._rows.joined(row), self.position, why(reason))
                return []
            raise self.refused(repr(row).encode(), reason) from error

    def close(self) -> None:
        self._rows.close()


def _column_type(part: TypeInformation) -> TypeInformation:
    return Types.LIST(_column_type(part.elements[0])) if part.kind is TypeKind.LIST else part


def _column(part: TypeInformation, separator: str, zone: str) -> ReadColumn:
    """Return a parser of the fields of a column, none of which is null."""
    kind = part.kind
    if kind in text_values.RANGES:
        return text_values.integers(kind)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return text_values.numbers
    if kind is TypeKind.BOOLEAN:
        return text_values.booleans
    read = _field(part, separator, zone)
    return lambda fields: list(map(read, fields))


def _field(part: TypeInformation, separator: str, zone: str) -> Callable[[str], Any]:
    kind = part.kind
    if kind in text_values.RANGES:
        return text_values.integer(kind)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return text_values.number
    if kind is TypeKind.BOOLEAN:
        return text_values.boolean
    if kind is TypeKind.SQL_DATE:
        return text_values.date
    if kind is TypeKind.SQL_TIMESTAMP:
        return text_values.instant(zone)
    if kind is TypeKind.LIST:
        return _list(part.elements[0], separator, zone)
    return str


def _list(part: TypeInformation, separator: str, zone: str) -> Callable[[str], list[Any]]:
    """Return a parser of lists; their elements are cast, which allows spaces around numbers."""
    of_part = _field(part, separator, zone)
    numeric = part.kind in text_values.RANGES or part.kind in (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.BOOLEAN)

    def read(text: str) -> list[Any]:
        parts = text.split(separator) if separator else list(text)
        return [of_part(one.strip(_SPACE) if numeric else one) for one in parts]

    return read
