"""The columns and the dialect of CSV files; the names are those of `pyflink.datastream.formats.csv`."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.connectors.file_system.formats.csv_text import check_characters

_NUMBERS = (
    TypeKind.BYTE,
    TypeKind.SHORT,
    TypeKind.INT,
    TypeKind.LONG,
    TypeKind.FLOAT,
    TypeKind.DOUBLE,
    TypeKind.BIG_DEC,
    TypeKind.BIG_INT,
)


class CsvSchema:
    """The columns and the dialect of CSV files.

    Args:
        row_type: A named ROW: the columns.
        column_separator: Stands between two fields.
        line_separator: Ends a row that is written.
        quote_char: Stands around a field that has a separator in it; None for never.
        escape_char: Stands before a quote in such a field; None doubles the quote.
        null_value: What null is.
        array_separators: By column, what stands between the elements of an array.
        use_header: The first line has the names of the columns.
        strict_headers: They have to be those of the schema.
        allow_comments: Lines that begin with # are skipped.

    Raises:
        JobGraphError: A character stands for two things, or ends a line.
    """

    def __init__(
        self,
        row_type: TypeInformation,
        column_separator: str = ",",
        line_separator: str = "\n",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        null_value: str = "",
        array_separators: dict[str, str] | None = None,
        use_header: bool = False,
        strict_headers: bool = False,
        allow_comments: bool = False,
    ) -> None:
        check_characters(column_separator, quote_char, escape_char)
        self.row_type = row_type
        self.column_separator = column_separator
        self.line_separator = line_separator
        self.quote_char = quote_char
        self.escape_char = escape_char
        self.null_value = null_value
        self.array_separators = array_separators or {}
        self.use_header = use_header
        self.strict_headers = strict_headers
        self.allow_comments = allow_comments

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder without columns, with commas as separators and quotes where needed."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.row_type.get_field_names())

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"CsvSchema({self.row_type.name})"


class CsvSchemaBuilder:
    """Builds a `CsvSchema`."""

    def __init__(self) -> None:
        self._fields: list[tuple[str, TypeInformation]] = []
        self._separators: dict[str, str] = {}
        self._options: dict[str, Any] = {}
        self._array_separator: str | None = None

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of strings."""
        return self._add(name, Types.STRING())

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of `true` and `false`."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers, `Types.LONG()` by default.

        Raises:
            JobGraphError: It isn't a numeric type.
        """
        number_type = number_type or Types.LONG()
        if not isinstance(number_type, TypeInformation) or number_type.kind not in _NUMBERS:
            message = f"add_number_column() takes a type of numbers, not {number_type!r}."
            raise JobGraphError(message, hint="such as Types.INT(), in the place of DataTypes.INT()")
        return self._add(name, number_type)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of arrays, of strings by default.

        Raises:
            JobGraphError: The elements are lists or rows themselves.
        """
        element_type = element_type or Types.STRING()
        if not isinstance(element_type, TypeInformation) or element_type.kind not in (
            *_NUMBERS,
            TypeKind.STRING,
            TypeKind.BOOLEAN,
        ):
            message = f"add_array_column() takes a type of texts, numbers or booleans, not {element_type!r}."
            raise JobGraphError(message, hint="such as Types.STRING(), in the place of DataTypes.STRING()")
        self._separators[name] = separator
        return self._add(name, Types.LIST(element_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add the columns of another schema."""
        self._separators.update(schema.array_separators)
        for name, part in zip(schema.row_type.get_field_names(), schema.row_type.elements, strict=True):
            self._add(name, part)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._fields.clear()
        self._separators.clear()
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the separator of fields; a comma by default."""
        return self._set("column_separator", _one(char, "Column separator"))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set the end of written rows; "\n" by default."""
        return self._set("line_separator", separator)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the quote character; a double quote by default."""
        return self._set("quote_char", _one(char, "Quote char"))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Never quote fields."""
        return self._set("quote_char", None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that escapes a quote in a field; by default the quote is doubled."""
        return self._set("escape_char", _one(char, "Escape char"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Double quotes in fields instead of escaping them."""
        return self._set("escape_char", None)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text of null; empty by default."""
        return self._set("null_value", null_value)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Set whether the first line has the column names."""
        return self._set("use_header", use)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Set whether the column names have to match the schema."""
        return self._set("strict_headers", strict)

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Set whether lines that begin with # are skipped."""
        return self._set("allow_comments", allow)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of the elements of all arrays."""
        self._array_separator = separator
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Use no separator between the elements of arrays."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Use no separator between the elements of one column's arrays."""
        self._separators[self._fields[index][0]] = ""
        return self

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Not supported: Spark can skip a first row only as a header.

        Raises:
            JobGraphError: The argument is true.
        """
        if skip:
            message = "set_skip_first_data_row() is not there: Spark skips a first line only where it is a header."
            raise JobGraphError(message, hint="set_use_header()")
        return self

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Not supported: fields beyond the columns are not collected.

        Raises:
            JobGraphError: Always.
        """
        message = "set_any_property_name() is not there: a row has the fields of its columns."
        raise JobGraphError(message, where=name, hint="add a column for each field")

    def size(self) -> int:
        """Return the number of columns."""
        return len(self._fields)

    def __len__(self) -> int:
        return self.size()

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            JobGraphError: It has no columns, or a character stands for two things.
        """
        if not self._fields:
            message = "A CsvSchema has at least one column."
            raise JobGraphError(message, hint="add_string_column(...), add_number_column(...)")
        names, types = [name for name, _ in self._fields], [part for _, part in self._fields]
        separators = dict(self._separators)
        if self._array_separator is not None:
            separators = dict.fromkeys(separators, self._array_separator)
        return CsvSchema(Types.ROW_NAMED(names, types), array_separators=separators, **self._options)

    def _add(self, name: str, part: TypeInformation) -> CsvSchemaBuilder:
        self._fields.append((name, part))
        return self

    def _set(self, name: str, value: Any) -> CsvSchemaBuilder:
        self._options[name] = value
        return self


def _one(char: str, what: str) -> str:
    if not isinstance(char, str) or len(char) != 1:
        message = f"{what} must be a single char, got {char}"
        raise ValueError(message)
    return char
