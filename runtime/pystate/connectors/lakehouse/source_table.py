"""The interface of a table format to sources: the files of a version, what later versions add, and the rows of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

DataFile = dict[str, Any]
"""A file in plain values: with `path`, and what else its format needs to read it."""

NOTHING = -1
"""The version before the first one."""


class ChangeKind(Enum):
    """What a version of a table does to the one before it."""

    ADDS = "adds rows"
    DELETES = "deletes rows"
    CHANGES = "changes or overwrites rows"


@dataclass(frozen=True)
class TableChange:
    """One version.

    Attributes:
        version: Its number, or the id of the snapshot.
        kind: What it does.
        files: Those that it adds; none where it only rearranges rows.
    """

    version: int
    kind: ChangeKind
    files: list[DataFile]


class SourceTable(ABC):
    """A table as it was when it was opened.

    Attributes:
        name: For messages.
        identity: What tells it from a table of this name that is made later.
        schema: Its columns.
        newest: Its version; `NOTHING` if it has none.
    """

    name: str
    identity: str
    schema: pa.Schema
    newest: int

    def may_have_news(self, after: int) -> bool:
        """Return whether there may be a version after one by now: opening a table of very many files costs much."""
        return True

    @abstractmethod
    def before_earliest(self) -> int:
        """Return the version after which all that the table still knows begins."""

    @abstractmethod
    def before(self, version: int) -> int:
        """Return the version before another one.

        Raises:
            ConfigurationError: There is no such version, or it isn't known any more.
        """

    @abstractmethod
    def at(self, timestamp_ms: int) -> int:
        """Return the version that was the newest at a time, ms since 1970.

        Raises:
            ConfigurationError: The table doesn't know.
        """

    @abstractmethod
    def files(self, version: int) -> list[DataFile]:
        """Return all files of a version.

        Raises:
            ConfigurationError: It isn't there any more, or has what can't be read.
        """

    def columns(self, version: int) -> pa.Schema:
        """Return the columns by which the files of a version are read.

        Raises:
            ConfigurationError: It isn't there any more.
        """
        del version
        return self.schema

    @abstractmethod
    def changes(self, after: int) -> Iterator[TableChange]:
        """Yield the versions after one, the oldest first.

        Raises:
            HistoryGoneError: The table has forgotten one of them, or was put back.
        """

    @abstractmethod
    def batches(self, file: DataFile, columns: Sequence[str], skip: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, always in the same order.

        Args:
            file: The file.
            columns: The columns to read; those that the file lacks are left out. Others may come, too.
            skip: So many rows are left out at the begin.

        Raises:
            OSError: It can't be read.
        """


class HistoryGoneError(Exception):
    """The table has forgotten versions that weren't read yet, or was put back to one that was."""
