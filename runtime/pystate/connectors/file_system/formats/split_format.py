"""How files become elements in a slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.file_system.formats.file_content import UTF_8, TextEncoding, content_of
from pystate.connectors.file_system.formats.lines import Lines
from pystate.core.records.codec import RecordCodec, shown


class FileRecords(ABC):
    """The elements of one file from a position on.

    Attributes:
        position: Where the next element begins; what that counts is the format's.
    """

    position: int

    @abstractmethod
    def read(self, most: int) -> Sequence[Any] | None:
        """Return some of the next elements, maybe none; None at the end of the file.

        Raises:
            RecordError: The file isn't of the format.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""


class SplitFormat(ABC):
    """A format of files. It travels to the slots.

    Attributes:
        element_type: What the elements are.
    """

    element_type: TypeInformation

    @abstractmethod
    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the elements of a file.

        Args:
            file: Its bytes; closed with what is returned.
            name: For errors.
            position: Where to go on; 0 for the begin.
        """


class TextLines(SplitFormat):
    """Each line is an element.

    Args:
        encoding: Of the lines.
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
            where = f"A line of {self._name} behind byte {self.position}"
            message = f"{where} is no UTF-8: {shown(error.object)}: {error.reason}."
            hint = "name the charset of the file, or say what to do about such bytes: text_line_format(charset, errors)"
            raise RecordError(message, hint=hint) from error
        self.position = self._lines.position
        return elements or None

    def close(self) -> None:
        self._lines.close()


class RowRecords(FileRecords):
    """Rows of a file of text.

    Args:
        name: For errors.
        codec: Of the rows.
        kind: What the rows are, for errors.
        position: Where they begin.
    """

    def __init__(self, name: str, codec: RecordCodec, kind: str, position: int) -> None:
        self._name = name
        self._codec = codec
        self._kind = kind
        self.position = position

    def decode(self, columns: Sequence[list[Any]]) -> list[Any]:
        """Return the rows of columns.

        Raises:
            ValueError: They have other types.
        """
        schema = self._codec.schema
        arrays = [pa.array(column, field.type, from_pandas=False) for column, field in zip(columns, schema, strict=True)]
        return list(self._codec.decode(pa.RecordBatch.from_arrays(arrays, schema=schema)))

    def refused(self, written: bytes, error: Exception) -> RecordError:
        """Return what says that something in the file is no row.

        Args:
            written: What is none.
            error: Why.
        """
        where = f"A line of {self._name} behind byte {self.position}"
        message = f"{where} is no such row of {self._kind}: {error}: {shown(written)}"
        return RecordError(message, hint="mend the file, or declare columns that fit; a bad line fails the job")


Parse = Callable[[bytes], list[tuple[Any, ...]]]
"""Returns the rows of a line, as values of columns; raises a ValueError where it has none and should."""


class LineRows(RowRecords):
    """Rows of a file of which each line has one, as a rule.

    Args:
        lines: Of the file.
        name: For errors.
        codec: Of the rows.
        parse: Makes rows of lines.
        kind: What the lines are, for errors.
    """

    def __init__(self, lines: Lines, name: str, codec: RecordCodec, parse: Parse, kind: str) -> None:
        super().__init__(name, codec, kind, lines.position)
        self._lines = lines
        self._parse = parse

    def read(self, most: int) -> list[Any] | None:
        """Return the next rows."""
        lines = self._lines.read(most)
        if not lines:
            return None
        rows: list[tuple[Any, ...]] = []
        for line in lines:
            try:
                rows.extend(self._parse(line))
            except (ValueError, OverflowError, RecursionError) as error:
                raise self.refused(line, error) from error
        try:
            elements = self.decode([[row[index] for row in rows] for index in range(len(self._codec.schema))])
        except (ValueError, OverflowError, TypeError) as error:  # Arrow's own are ValueErrors, too
            raise self.refused(lines[0], error) from error
        self.position = self._lines.position
        return elements

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
