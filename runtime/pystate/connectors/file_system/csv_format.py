"""Files of CSV in slots: what Spark's reader, univocity's parser, makes of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.connectors.file_system import text_values
from pystate.connectors.file_system.csv_schema import CsvSchema
from pystate.connectors.file_system.lines import Lines, content_of
from pystate.connectors.file_system.split_format import FileRecords, LineRows, SplitFormat
from pystate.records.codec import RecordCodec

_SPACE = "".join(map(chr, range(33)))
"""What Java's `trim` takes away."""


class CsvFormat(SplitFormat):
    """Rows of CSV.

    Args:
        schema: Their columns.
        zone: Of timestamps that name none.
    """

    def __init__(self, schema: CsvSchema, zone: str) -> None:
        self._schema = schema
        self._zone = zone
        names, parts = schema.row_type.get_field_names(), schema.row_type.elements
        self.element_type = Types.ROW_NAMED(names, [_column_type(part) for part in parts])

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the rows.

        Raises:
            RecordError: The header isn't that of the schema, and has to be.
        """
        schema = self._schema
        lines = Lines(content_of(file, name), position)
        fields = CsvFields(schema.column_separator, schema.quote_char, schema.escape_char)
        comment = "#" if schema.allow_comments else None
        if position == 0 and schema.use_header:
            self._read_header(lines, fields, comment, name)
        columns = [_column(part, self._separator(index), self._zone) for index, part in enumerate(schema.row_type.elements)]
        null = schema.null_value

        def parse(line: bytes) -> list[tuple[Any, ...]]:
            text = line.decode(errors="replace")
            if not text.strip(_SPACE) or (comment is not None and text.startswith(comment)):
                return []
            values = fields.of(text)
            if len(values) != len(columns):
                message = f"it has {len(values)} fields, not {len(columns)}"
                raise ValueError(message)
            return [
                tuple(
                    None if value is None or value == null else column(value)
                    for column, value in zip(columns, values, strict=True)
                )
            ]

        return LineRows(lines, name, RecordCodec(self.element_type, name), parse, "CSV")

    def _separator(self, index: int) -> str:
        return self._schema.array_separators.get(self._schema.row_type.get_field_names()[index], ";")

    def _read_header(self, lines: Lines, fields: CsvFields, comment: str | None, name: str) -> None:
        header = None
        while header is None:
            line = lines.read(1)
            if not line:
                return
            text = line[0].decode(errors="replace")
            if text.strip(_SPACE) and not (comment is not None and text.startswith(comment)):
                header = text
        if not self._schema.strict_headers:
            return
        found, wanted = fields.of(header), self._schema.row_type.get_field_names()
        if [str(one).lower() for one in found] != [one.lower() for one in wanted]:
            message = f"The header of {name} is {found}, not {list(wanted)}."
            raise RecordError(message, hint="mend the file or the schema, or leave set_strict_headers() out")


class CsvFields:
    """Cuts lines into fields.

    Args:
        separator: Stands between two.
        quote: Stands around a field; None for never.
        escape: Stands before a quote in a field; None doubles the quote.
    """

    def __init__(self, separator: str, quote: str | None, escape: str | None) -> None:
        self._separator = separator
        self._quote = quote
        self._escape = quote if escape is None else escape

    def of(self, line: str) -> list[str | None]:
        """Return the fields of a line; None for an empty one without quotes.

        Raises:
            ValueError: Quotes stand where nobody can tell what Spark's reader makes of them.
        """
        quote, separator = self._quote, self._separator
        if quote is None or quote not in line:
            return [field or None for field in line.split(separator)]
        if "\0" in line:  # which means the end of something to univocity
            message = "it has a NUL and quotes"
            raise ValueError(message)
        fields: list[str | None] = []
        at = 0
        while True:
            if line.startswith(quote, at):
                field, at = self._quoted(line, at)
                fields.append(field)
            else:
                end = line.find(separator, at)
                end = len(line) if end < 0 else end
                fields.append(line[at:end] or None)
                at = end
            if at >= len(line):
                return fields
            at += 1

    def _quoted(self, line: str, start: int) -> tuple[str, int]:
        """Return a field that begins with a quote, and where the separator behind it is: univocity's `parseQuotedValue`."""
        quote, escape, separator = self._quote, self._escape, self._separator
        parts: list[str] = []
        at, end, before = start + 1, len(line), ""
        if at == end:
            return line[start], end
        while at < end:
            char = line[at]
            if before == quote and ("\0" < char <= " " or char == separator):
                break
            if char in (quote, escape):
                before = self._marked(char, before, parts)
            elif before == quote:
                return self._left_alone(line, at - 1, parts)
            else:
                if before == escape:
                    parts.append(before)
                stop = at
                while stop < end and line[stop] not in (quote, escape):
                    stop += 1
                parts.append(line[at:stop])
                at, before = stop, line[stop] if stop < end else ""
            at += 1
        closing = at - 1
        while at < end and "\0" < line[at] <= " " and line[at] != separator:
            at += 1
        if at >= end or line[at] == separator:
            return "".join(parts), min(at, end)
        field, stop = self._left_alone(line, closing, parts)
        if field.endswith(str(quote)):
            message = "a quote is followed by space and more"
            raise ValueError(message)
        return field, stop

    def _marked(self, char: str, before: str, parts: list[str]) -> str:
        """Take a quote or an escape, and return what the next character has before it."""
        quote, escape = self._quote, self._escape
        if before == escape and (char == quote or escape != quote):
            parts.append(char)
            return ""
        if before == quote:
            if char != quote:
                message = "a quote has an escape behind it"
                raise ValueError(message)
            parts.append(char)
        return char

    def _left_alone(self, line: str, at: int, parts: list[str]) -> tuple[str, int]:
        """Return a field with a quote in it that nothing escapes: what stands there up to a separator, quotes and all."""
        stop = line.find(self._separator, at)
        stop = len(line) if stop < 0 else stop
        return f"{self._quote}{''.join(parts)}{line[at:stop]}", stop


def _column_type(part: TypeInformation) -> TypeInformation:
    return Types.LIST(_column_type(part.elements[0])) if part.kind is TypeKind.LIST else part


def _column(part: TypeInformation, separator: str, zone: str) -> Callable[[str], Any]:
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
    """Return what reads a list: its parts are cast, which takes spaces around a number."""
    of_part = _column(part, separator, zone)
    numeric = part.kind in text_values.RANGES or part.kind in (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.BOOLEAN)

    def read(text: str) -> list[Any]:
        parts = text.split(separator) if separator else list(text)
        return [of_part(one.strip(_SPACE) if numeric else one) for one in parts]

    return read
