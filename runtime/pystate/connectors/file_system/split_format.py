"""How files become elements in a slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.file_system.lines import Lines, content_of
from pystate.records.codec import RecordCodec, shown


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
    """Each line is an element."""

    element_type = Types.STRING()

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the lines."""
        return _TextRecords(Lines(content_of(file, name), position), name)


class _TextRecords(FileRecords):
    def __init__(self, lines: Lines, name: str) -> None:
        self._lines = lines
        self._name = name
        self.position = lines.position

    def read(self, most: int) -> list[str] | None:
        lines = self._lines.read(most)
        try:
            elements = [line.decode() for line in lines]
        except UnicodeDecodeError as error:
            where = f"A line of {self._name} behind byte {self.position}"
            message = f"{where} is no UTF-8: {shown(error.object)}: {error.reason}."
            raise RecordError(message, hint="convert the file to UTF-8") from error
        self.position = self._lines.position
        return elements or None

    def close(self) -> None:
        self._lines.close()


Parse = Callable[[bytes], list[tuple[Any, ...]]]
"""Returns the rows of a line, as values of columns; raises a ValueError where it has none and should."""


class LineRows(FileRecords):
    """Rows of a file of which each line has one, as a rule.

    Args:
        lines: Of the file.
        name: For errors.
        codec: Of the rows.
        parse: Makes rows of lines.
        kind: What the lines are, for errors.
    """

    def __init__(self, lines: Lines, name: str, codec: RecordCodec, parse: Parse, kind: str) -> None:
        self._lines = lines
        self._name = name
        self._codec = codec
        self._parse = parse
        self._kind = kind
        self.position = lines.position

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
                raise self._refused(line, error) from error
        try:
            schema = self._codec.schema
            arrays = [
                pa.array([row[index] for row in rows], field.type, from_pandas=False) for index, field in enumerate(schema)
            ]
            elements = self._codec.decode(pa.RecordBatch.from_arrays(arrays, schema=schema))
        except (ValueError, OverflowError, TypeError) as error:  # Arrow's own are ValueErrors, too
            raise self._refused(lines[0], error) from error
        self.position = self._lines.position
        return list(elements)

    def _refused(self, line: bytes, error: Exception) -> RecordError:
        where = f"A line of {self._name} behind byte {self.position}"
        message = f"{where} is no such row of {self._kind}: {error}: {shown(line)}"
        return RecordError(message, hint="mend the file, or declare columns that fit; a bad line fails the job")

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
