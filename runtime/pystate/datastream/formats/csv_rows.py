"""Serialization of rows as lines of CSV, with the names of `pyflink.datastream.formats.csv`."""

from __future__ import annotations

import csv
import io
from typing import Any, TypeVar

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import DeserializationSchema, SerializationSchema
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import LISTS, SCALAR_RULES, as_list, as_row, is_byte_array
from pystate.connectors.file_system.formats.csv_text import CsvText, check_characters, escape_of
from pystate.datastream.formats.json_reading import PROBLEMS, SHOWN, Convert, reader
from pystate.datastream.formats.json_writing import Write, instant_text, writer

_NESTED = (TypeKind.ROW, TypeKind.TUPLE, TypeKind.MAP)
_TEXTS = (TypeKind.STRING, TypeKind.CHAR)
BuilderT = TypeVar("BuilderT", bound="_Builder")
_LONGEST = 2**31 - 1
"""The longest text of a column: what a C long holds everywhere."""


class _Layout:
    """The dialect of the lines, set by both builders.

    Attributes:
        null_literal: The text of None; by default an empty column, which is read as None except in strings.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, TypeInformation) or type_info.kind is not TypeKind.ROW:
            message = f"A schema of CSV takes the type of rows, not {type_info!r}."
            raise JobGraphError(message, hint="Types.ROW_NAMED([...], [...]) makes one")
        odd = [part.name for part in type_info.elements if part.kind in _NESTED or any(p.elements for p in part.elements)]
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

    def check(self) -> None:
        """Refuse characters of which nobody can tell what they stand for; see `check_characters`."""
        check_characters(self.delimiter, self.quote, self.escape)

    def dialect(self) -> dict[str, Any]:
        """Return the dialect for Python's csv module."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "escapechar": escape_of(self.escape, self.quote),
            "quoting": quoting,
        }


class _Builder:
    """What both builders set alike."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._layout = _Layout(type_info)

    def set_array_element_delimiter(self: BuilderT, delimiter: str) -> BuilderT:
        """Set the delimiter of the elements of a list; a semicolon by default."""
        self._layout.array_delimiter = delimiter
        return self

    def set_quote_character(self: BuilderT, c: str) -> BuilderT:
        """Set the quote character."""
        self._layout.quote = _character("set_quote_character", c)
        return self

    def set_escape_character(self: BuilderT, c: str) -> BuilderT:
        """Set the escape character; there is none by default."""
        self._layout.escape = _character("set_escape_character", c)
        return self

    def _checked(self) -> _Layout:
        self._layout.check()
        return self._layout


class CsvRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from lines of CSV; made by its `Builder`.

    Args:
        layout: The dialect of the lines.
    """

    def __init__(self, layout: _Layout) -> None:
        self.produced_type = layout.type_info
        self._layout = layout
        self._parts: list[Convert] | None = [self._part(element) for element in layout.type_info.elements]

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a line; None to skip it.

        Raises:
            RecordError: The line isn't a row of the type.
        """
        layout = self._layout
        if self._parts is None:
            self._parts = [self._part(element) for element in layout.type_info.elements]
        names = layout.type_info.row_names
        try:
            text = message.decode("utf-8-sig")
            if layout.comments and text.startswith("#"):
                return None
            columns = self._columns(text)
            if layout.ignores_errors and 0 < len(columns) < len(names):
                columns += [None] * (len(names) - len(columns))
            if len(columns) != len(names):
                problem = f"it has {len(columns)} columns, not {len(names)}"
                raise ValueError(problem)  # noqa: TRY301
            return Row.of_fields(names, [part(column) for part, column in zip(self._parts, columns, strict=True)])
        except (*PROBLEMS, StopIteration, csv.Error) as error:
            if layout.ignores_errors:
                return None
            said = f"A message is no CSV of {layout.type_info.name}: {error}. It begins with {message[:SHOWN]!r}."
            raise RecordError(said, hint="call set_ignore_parse_errors(True) to read such columns as None") from error

    def _columns(self, text: str) -> list[str | None]:
        """Return the columns of a message, which is a single line: any line ends are in quotes."""
        _long_columns_too()
        lines = csv.reader(io.StringIO(text, newline=""), strict=True, **self._layout.dialect())
        columns: list[str | None] = [*next(lines)] or [""]
        if next(lines, None) is not None:
            problem = "it has more than one line"
            raise ValueError(problem)
        return columns

    def _part(self, type_info: TypeInformation) -> Convert:
        layout = self._layout
        lax = layout.ignores_errors
        is_list = _is_list(type_info)
        nothing_is_none = layout.null_literal is None and type_info.kind not in _TEXTS
        convert = reader(type_info.elements[0] if is_list else type_info, ignores_errors=lax)
        empty_is_none = is_list and type_info.elements[0].kind not in _TEXTS
        no_none = type_info.kind is TypeKind.PRIMITIVE_ARRAY

        def read(column: str | None) -> Any:
            if column is None or column == layout.null_literal or (nothing_is_none and not column):
                return None
            if not is_list:
                return convert(column)
            texts = column.split(layout.array_delimiter) if column else []
            values = [None if empty_is_none and not text else convert(text) for text in texts]
            if no_none and None in values:
                problem = f"{column[:SHOWN]!r} has an element that is no {type_info.elements[0].name}"
                raise ValueError(problem)
            return values

        def lax_read(column: str | None) -> Any:
            try:
                return read(column)
            except PROBLEMS:
                return None

        return lax_read if lax else read

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_parts": None}

    class Builder(_Builder):
        """Builds the schema.

        Args:
            type_info: The type of the rows.
        """

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the delimiter of columns; a comma by default."""
            self._layout.delimiter = _character("set_field_delimiter", delimiter)
            return self

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:  # noqa: FBT001
            """Skip lines that begin with `#`."""
            self._layout.comments = allow_comments
            return self

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text of None; by default an empty column, except in strings."""
            self._layout.null_literal = null_literal
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:  # noqa: FBT001
            """Skip invalid lines; by default they fail the job."""
            self._layout.ignores_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema.

            Raises:
                JobGraphError: A character stands for two things.
            """
            return CsvRowDeserializationSchema(self._checked())


class CsvRowSerializationSchema(SerializationSchema):
    """Serializes rows as lines of CSV; made by its `Builder`.

    Args:
        layout: The dialect of the lines.
    """

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self.consumed_type = layout.type_info
        self._parts: list[Write] | None = [self._part(part) for part in layout.type_info.elements]

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row.

        Raises:
            RecordError: The row has another type.
        """
        layout = self._layout
        if self._parts is None:
            self._parts = [self._part(part) for part in layout.type_info.elements]
        names = layout.type_info.row_names
        try:
            values = as_row(element, layout.type_info).values_as(names)
            columns = [part(value) for part, value in zip(self._parts, values, strict=True)]
            line = io.StringIO()
            CsvText(line.write, layout.delimiter, layout.line_delimiter, layout.quote, layout.escape).row(columns)
            return line.getvalue().encode()
        except PROBLEMS as error:
            message = f"An element is no {layout.type_info.name}: {error.args[0]}. It is {repr(element)[:SHOWN]}."
            raise RecordError(message, hint="name the type that the elements have in the builder") from error

    def _part(self, type_info: TypeInformation) -> Write:
        layout = self._layout
        nothing = layout.null_literal or ""
        if not _is_list(type_info):
            of_value = _column_writer(type_info)
            return lambda value: nothing if value is None else of_value(value)
        of_element = _column_writer(type_info.elements[0])

        def write(values: Any) -> str:
            if values is None:
                return nothing
            texts = ["" if value is None else of_element(value) for value in as_list(values, type_info)]
            split = next((text for text in texts if layout.array_delimiter in text), None)
            if split is not None:
                problem = f"{split[:SHOWN]!r} would be read as more than one element: it has {layout.array_delimiter!r}"
                raise ValueError(problem)
            return layout.array_delimiter.join(texts)

        return write

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_parts": None}

    class Builder(_Builder):
        """Builds the schema.

        Args:
            type_info: The type of the rows.
        """

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the delimiter of columns; a comma by default."""
            self._layout.delimiter = _character("set_field_delimiter", c)
            return self

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the line end: a line feed by default; may be empty."""
            self._layout.line_delimiter = delimiter
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Never quote columns."""
            self._layout.quote = None
            return self

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text of None; empty by default."""
            self._layout.null_literal = s
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema.

            Raises:
                JobGraphError: A character stands for two things.
            """
            return CsvRowSerializationSchema(self._checked())


def _character(call: str, text: Any) -> str:
    if not isinstance(text, str) or len(text) != 1:
        message = f"{call}() takes one character, not {text!r}."
        raise JobGraphError(message)
    return text


def _is_list(type_info: TypeInformation) -> bool:
    return type_info.kind in LISTS and not is_byte_array(type_info)


def _column_writer(type_info: TypeInformation) -> Write:
    """Return the formatter of a column: as in Flink, a timestamp has a space."""
    kind = type_info.kind
    if kind in _TEXT_OF:
        rule, text_of = SCALAR_RULES[kind], _TEXT_OF[kind]
        return lambda value: text_of(rule(value))
    write = writer(type_info)
    return lambda value: write(value).strip('"')  # only strings can have quotes


_TEXT_OF: dict[TypeKind, Convert] = {
    TypeKind.STRING: str,
    TypeKind.CHAR: str,
    TypeKind.SQL_TIME: lambda time: time.isoformat(),
    TypeKind.SQL_TIMESTAMP: lambda at: at.isoformat(" "),
    TypeKind.INSTANT: lambda instant: instant_text(instant, " "),
}


def _long_columns_too() -> None:
    """Let Python's csv read columns of any length: its default limit, for the whole process, is 128 KB."""
    if csv.field_size_limit() < _LONGEST:
        csv.field_size_limit(_LONGEST)
