"""Rows as lines of CSV, in the names of `pyflink.datastream.formats.csv`."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import DeserializationSchema, SerializationSchema
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.datastream.formats.json import Convert, from_json, to_json

_SHOWN = 200
_NESTED = (TypeKind.ROW, TypeKind.TUPLE, TypeKind.MAP)
_TEXTS = (TypeKind.STRING, TypeKind.CHAR)


class _Layout:
    """How lines look: what both builders collect.

    Attributes:
        null_literal: What stands for None; an empty column where nothing is set, which is read as None but in texts.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, TypeInformation) or type_info.kind is not TypeKind.ROW:
            message = f"A schema of CSV takes the type of rows, not {type_info!r}."
            raise JobGraphError(message, hint="Types.ROW_NAMED([...], [...]) makes one")
        odd = [part.name for part in type_info.elements if part.kind in _NESTED]
        if odd:
            message = f"A column of CSV can't hold {odd[0]}."
            raise JobGraphError(message, hint="use JSON, or take the parts as columns of their own")
        self.type_info = type_info
        self.delimiter = ","
        self.array_delimiter = ";"
        self.quote: str | None = '"'
        self.escape: str | None = None
        self.null_literal: str | None = None
        self.line_delimiter = "\n"
        self.comments = False
        self.ignores_errors = False

    def dialect(self) -> dict[str, Any]:
        """Return the settings for Python's csv."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {"delimiter": self.delimiter, "quotechar": self.quote, "escapechar": self.escape, "quoting": quoting}


class CsvRowDeserializationSchema(DeserializationSchema):
    """Makes rows of lines of CSV; made by its `Builder`.

    Args:
        layout: How lines look.
    """

    def __init__(self, layout: _Layout) -> None:
        self.produced_type = layout.type_info
        self._layout = layout
        self._parts: list[Convert] | None = None

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a line; None where it is to be left out.

        Raises:
            RecordError: The line is no such row.
        """
        layout = self._layout
        if self._parts is None:
            self._parts = [self._part(element) for element in layout.type_info.elements]
        names = layout.type_info.row_names
        try:
            text = message.decode()
            if layout.comments and text.startswith("#"):
                return None
            columns = next(csv.reader([text.rstrip("\r\n")], strict=True, **layout.dialect()))
            if len(columns) != len(names):
                problem = f"it has {len(columns)} columns, not {len(names)}"
                raise ValueError(problem)  # noqa: TRY301
            return Row.of_fields(names, [part(column) for part, column in zip(self._parts, columns, strict=True)])
        except (ValueError, TypeError, ArithmeticError, StopIteration, csv.Error) as error:
            if layout.ignores_errors:
                return None
            said = f"A message is no CSV of {layout.type_info.name}: {error}. It begins with {message[:_SHOWN]!r}."
            raise RecordError(said, hint="call set_ignore_parse_errors(True) to leave such messages out") from error

    def _part(self, type_info: TypeInformation) -> Convert:
        layout = self._layout
        is_list = (
            type_info.kind not in _TEXTS and bool(type_info.elements) and type_info.elements[0].kind is not TypeKind.BYTE
        )
        convert = from_json(type_info.elements[0] if is_list else type_info, fails_on_missing=False)
        of_text = type_info.kind in _TEXTS

        def read(column: str) -> Any:
            if column == layout.null_literal or (layout.null_literal is None and not column and not of_text):
                return None
            if is_list:
                return [convert(part) for part in column.split(layout.array_delimiter)] if column else []
            return convert(column)

        return read

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to the workers."""
        return {**self.__dict__, "_parts": None}

    class Builder:
        """Collects how lines look.

        Args:
            type_info: The type of the rows.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._layout = _Layout(type_info)

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands between columns; a comma otherwise."""
            self._layout.delimiter = _character("set_field_delimiter", delimiter)
            return self

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:  # noqa: FBT001
            """Leave out lines that begin with `#`."""
            self._layout.comments = allow_comments
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands between the elements of a list; a semicolon otherwise."""
            self._layout.array_delimiter = delimiter
            return self

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands around a column with a delimiter in it."""
            self._layout.quote = _character("set_quote_character", c)
            return self

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands in front of a special character; there is none otherwise."""
            self._layout.escape = _character("set_escape_character", c)
            return self

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set what stands for None; otherwise an empty column does, but in texts."""
            self._layout.null_literal = null_literal
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:  # noqa: FBT001
            """Leave out lines that are no such row; otherwise one fails the job."""
            self._layout.ignores_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema."""
            return CsvRowDeserializationSchema(self._layout)


class CsvRowSerializationSchema(SerializationSchema):
    """Makes lines of CSV of rows; made by its `Builder`.

    Args:
        layout: How lines look.
    """

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self._parts: list[Convert] | None = None

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row.

        Raises:
            RecordError: The row is of another type.
        """
        layout = self._layout
        if self._parts is None:
            self._parts = [self._part(part) for part in layout.type_info.elements]
        names = layout.type_info.row_names
        try:
            values = element.values_as(names) if isinstance(element, Row) else list(element)
            columns = [part(value) for part, value in zip(self._parts, values, strict=True)]
            line = io.StringIO()
            csv.writer(line, lineterminator=layout.line_delimiter, **layout.dialect()).writerow(columns)
        except (ValueError, TypeError, AttributeError, csv.Error) as error:
            message = f"An element is no {layout.type_info.name}: {error}. It is {repr(element)[:_SHOWN]}."
            raise RecordError(message, hint="name the type that the elements have in the builder") from error
        return line.getvalue().encode()

    def _part(self, type_info: TypeInformation) -> Convert:
        layout, convert = self._layout, to_json(type_info)

        def write(value: Any) -> str:
            if value is None:
                return layout.null_literal or ""
            plain = convert(value)
            if isinstance(plain, list):
                return layout.array_delimiter.join(map(_text, plain))
            return _text(plain)

        return write

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to the slots."""
        return {**self.__dict__, "_parts": None}

    class Builder:
        """Collects how lines look.

        Args:
            type_info: The type of the rows.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._layout = _Layout(type_info)

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands between columns; a comma otherwise."""
            self._layout.delimiter = _character("set_field_delimiter", c)
            return self

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what ends a line: a line feed otherwise; may be nothing."""
            self._layout.line_delimiter = delimiter
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands between the elements of a list; a semicolon otherwise."""
            self._layout.array_delimiter = delimiter
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Put nothing around columns."""
            self._layout.quote = None
            return self

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands around a column with a delimiter in it."""
            self._layout.quote = _character("set_quote_character", c)
            return self

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands in front of a special character; there is none otherwise."""
            self._layout.escape = _character("set_escape_character", c)
            return self

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set what stands for None; nothing otherwise."""
            self._layout.null_literal = s
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema."""
            return CsvRowSerializationSchema(self._layout)


def _character(call: str, text: Any) -> str:
    if not isinstance(text, str) or len(text) != 1:
        message = f"{call}() takes one character, not {text!r}."
        raise JobGraphError(message)
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
