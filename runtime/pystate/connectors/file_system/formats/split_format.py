"""Formats that read elements from files in a slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.bad_records import why
from pystate.connectors.file_system.formats.file_content import UTF_8, TextEncoding, content_of
from pystate.connectors.file_system.formats.lines import Lines
from pystate.core.records.codec import RecordCodec, shown

Refuse = Callable[["bytes | None", int, str], None]


class FileRecords(ABC):
    """The elements of one file, from a position on.

    Attributes:
        position: Where the next element begins, in the unit of the format.
        refuse: Takes a record that is none of the format, so that reading goes on after it; None: such a record is an error.
            It gets the record's bytes, None where they can't be told from others; its position; and the reason.
    """

    position: int
    refuse: Refuse | None = None

    @abstractmethod
    def read(self, most: int) -> Sequence[Any] | None:
        """Return some next elements, possibly none; None at the end of the file.

        Raises:
            RecordError: The file doesn't have the format.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class SplitFormat(ABC):
    """A file format; it is pickled into the slots.

    Attributes:
        element_type: The type of the elements.
        refuses_records: Whether reading can go on after a record that is none of the format.
    """

    element_type: TypeInformation
    refuses_records = True

    @abstractmethod
    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the elements of a file.

        Args:
            file: The content; closed with the result.
            name: For errors.
            position: Where to start; 0 for the beginning.
        """


class TextLines(SplitFormat):
    """Reads each line as an element.

    Args:
        encoding: The charset.
    """

    element_type = Types.STRING()

    def __init__(self, encoding: TextEncoding = UTF_8) -> None:
        self._encoding = encoding

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the lines."""
        return _TextRecords(Lines(self._encoding.as_utf8(content_of(file, name)), position), name, self._encoding)


class _TextRecords(FileRecords):
    def __init__(self, lines: Lines, name: str, encoding: TextEncoding) -> None:
        self._lines = lines
        self._name = name
        self._encoding = encoding
        self.position = lines.position

    def read(self, most: int) -> list[str] | None:
        lines = self._lines.read(most)
        try:
            elements = list(map(self._encoding.text, lines))
        except UnicodeDecodeError as error:
            if self.refuse is not None:
                elements = self._one_by_one(lines, self.refuse)
                self.position = self._lines.position
                return elements
            where = f"A line of {self._name} after byte {self.position}"
            message = f"{where} is no UTF-8: {shown(error.object)}: {error.reason}."
            hint = "name the charset of the file, or say what to do about such bytes: text_line_format(charset, errors)"
            raise RecordError(message, hint=hint) from error
        self.position = self._lines.position
        return elements or None

    def _one_by_one(self, lines: list[bytes], refuse: Refuse) -> list[str]:
        elements = []
        for position, line in positions(self.position, lines, self._lines.ends):
            try:
                elements.append(self._encoding.text(line))
            except UnicodeDecodeError as error:
                refuse(line, position, f"it is no UTF-8: {error.reason}")
        return elements

    def close(self) -> None:
        self._lines.close()


def positions(start: int, lines: list[bytes], ends: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield where each of some lines begins, and the line."""
    for line, end in zip(lines, ends, strict=True):
        yield start, line
        start += len(line) + len(end)


_UNCHANGED = frozenset((pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.string()))
"""The types of columns whose values are the same before and after Arrow."""


class RowRecords(FileRecords):
    """Base of the readers of rows from text files.

    Args:
        name: For errors.
        codec: Of the rows.
        kind: The name of the format, for errors.
        position: Where they begin.
    """

    def __init__(self, name: str, codec: RecordCodec, kind: str, position: int) -> None:
        self._name = name
        self._codec = codec
        self._kind = kind
        self._plain = [codec.plain_field(field.name) is not None and field.type in _UNCHANGED for field in codec.schema]
        self.position = position

    def decode(self, columns: Sequence[list[Any]]) -> list[Any]:
        """Return the rows from columns, whose integers are in the range of their type.

        Raises:
            ValueError: The types don't match.
        """
        fields = enumerate(zip(columns, self._plain, strict=True))
        return self._codec.elements_of(
            [column if plain else self._codec.values_of(at, column) for at, (column, plain) in fields]
        )

    def refused(self, written: bytes, error: Exception) -> RecordError:
        """Return the error for invalid input in the file.

        Args:
            written: The invalid text.
            error: The cause.
        """
        where = f"A line of {self._name} after byte {self.position}"
        message = f"{where} is no such row of {self._kind}: {error}: {shown(written)}"
        return RecordError(message, hint="mend the file, or declare columns that fit; a bad line fails the job")


Parse = Callable[[bytes], list[tuple[Any, ...]]]
"""Returns the rows of a line, as values of columns; raises a ValueError where it has none and should."""


class LineRows(RowRecords):
    """Reads rows from a file with usually one row per line.

    Args:
        lines: The lines of the file.
        name: For errors.
        codec: Of the rows.
        parse: Makes rows from lines.
        kind: The name of the format of the lines, for errors.
        parse_many: Makes columns of rows from many lines; returns None if the lines have to be parsed one by one.
    """

    def __init__(
        self,
        lines: Lines,
        name: str,
        codec: RecordCodec,
        parse: Parse,
        kind: str,
        parse_many: Callable[[list[bytes]], list[list[Any]] | None],
    ) -> None:
        super().__init__(name, codec, kind, lines.position)
        self._lines = lines
        self._parse = parse
        self._parse_many = parse_many

    def read(self, most: int) -> list[Any] | None:
        """Return the next rows."""
        lines = self._lines.read(most)
        if not lines:
            return None
        try:
            columns = self._parse_many(lines) or self._parsed_one_by_one(lines)
            elements = self.decode(columns)
        except (ValueError, OverflowError, TypeError, RecordError) as error:  # Arrow's own are ValueErrors, too
            if self.refuse is not None:
                elements = self._without_wrong_ones(lines, self.refuse)
            elif isinstance(error, RecordError):
                raise
            else:
                raise self.refused(lines[0], error) from error
        self.position = self._lines.position
        return elements

    def _without_wrong_ones(self, lines: list[bytes], refuse: Refuse) -> list[Any]:
        elements: list[Any] = []
        for position, line in positions(self.position, lines, self._lines.ends):
            try:
                rows = self._parse(line)
                elements += self.decode([[row[index] for row in rows] for index in range(len(self._codec.schema))])
            except (ValueError, OverflowError, TypeError, RecursionError, RecordError) as error:
                refuse(line, position, why(error))
        return elements

    def _parsed_one_by_one(self, lines: list[bytes]) -> list[list[Any]]:
        rows: list[tuple[Any, ...]] = []
        for line in lines:
            try:
                rows.extend(self._parse(line))
            except (ValueError, OverflowError, RecursionError) as error:
                raise self.refused(line, error) from error
        return [[row[index] for row in rows] for index in range(len(self._codec.schema))]

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
