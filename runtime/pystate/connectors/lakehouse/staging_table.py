"""The interface of a table format to writers and committers: data files are staged, and one commit makes them visible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

DataFile = dict[str, Any]
"""A staged file in plain values: with `path`, and what else its format needs to commit it."""


class CommitConflictError(Exception):
    """Another writer was first: the table is to be opened again, and looked at."""


class StagingTable(ABC):
    """A table as it was when it was opened.

    Attributes:
        name: For messages.
        identity: What tells it from a table of this name that is made later.
        schema: Its columns.
    """

    name: str
    identity: str
    schema: pa.Schema

    @abstractmethod
    def stage(self, rows: pa.Table, stem: str) -> list[DataFile]:
        """Write rows to data files that no reader sees.

        Args:
            rows: With the columns of `schema`.
            stem: What the files' names begin with.
        """

    @abstractmethod
    def committed(self, owner: str) -> int:
        """Return the highest serial that was committed for an owner; -1 for none."""

    @abstractmethod
    def commit(self, files: Sequence[DataFile], owner: str, serial: int) -> None:
        """Add files, if there are any, and the marker of an owner in one commit.

        Raises:
            CommitConflictError: Somebody else has committed something that this commit doesn't know.
        """

    @abstractmethod
    def missing(self, files: Sequence[DataFile]) -> str | None:
        """Return the path of a staged file that is gone; None if all are there."""

    @abstractmethod
    def remove(self, files: Sequence[DataFile]) -> None:
        """Delete staged files that will never be committed."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Write a small file beside the data, which no reader of the table sees."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return the content of such a file; None if there is none."""

    @abstractmethod
    def drop(self, names: Sequence[str]) -> None:
        """Delete such files, as far as they are there."""
