"""The interface of a table format to writers and committers: data files are staged, and one commit makes them visible."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pystate.connectors.lakehouse.column_types import check_still_fits, widens
from pystate.connectors.lakehouse.table_upserts import DELETED, latest

DataFile = dict[str, Any]
"""A staged file in plain values: `path`, and what its format needs to commit it; with `upserts` its rows replace others."""
OVERWRITES = "overwrites"
"""The entry of a staged file that says that its rows replace the partitions they belong to."""


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

    def stage_upserts(self, rows: pa.Table, stem: str, keys: Sequence[str]) -> list[DataFile]:
        """Write rows that replace others to a file beside the data, which a commit reads.

        Args:
            rows: With the columns of `schema` and `DELETED`, one of each key.
            stem: What the file's name begins with.
            keys: The columns by which they replace others.
        """
        content = pa.BufferOutputStream()
        pq.write_table(rows, content)
        name = f"{stem}-{uuid.uuid4().hex}.upserts"
        self.put(name, content.getvalue())
        return [{"path": self.place(name), "upserts": name, "keys": list(keys)}]

    def upserts_of(self, files: Sequence[DataFile]) -> tuple[pa.Table, list[str]] | None:
        """Return the rows that staged files replace others with, the last one of each key, and the keys.

        Returns:
            None if the files are data files.

        Raises:
            CommitConflictError: One is gone: another process may have committed it.
            CommitError: They don't have the columns that the table has now.
        """
        found = []
        for name in upserts_among(files):
            content = self.get(name)
            if content is None:
                message = f"{name} is gone"
                raise CommitConflictError(message)
            found.append(pq.read_table(pa.BufferReader(content)))
        if not found:
            return None
        keys = [str(key) for key in files[-1]["keys"]]
        for rows in found:
            check_still_fits(rows.drop_columns([DELETED]).schema, self.schema, self.name, widens)
        return latest(pa.concat_tables(found, promote_options="permissive"), keys, self.name), keys

    @abstractmethod
    def committed(self, owner: str) -> int:
        """Return the highest serial that was committed for an owner; -1 for none."""

    @abstractmethod
    def check_staged(self, files: Sequence[DataFile]) -> None:
        """Check that data files have the columns and partitions that the table has now: others may have changed it.

        Raises:
            CommitError: They haven't, or the table has got what only an engine can keep.
        """

    @abstractmethod
    def commit(self, files: Sequence[DataFile], owner: str, serial: int) -> None:
        """Add files, if there are any, and the marker of an owner in one commit; see `OVERWRITES`.

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
    def place(self, name: str) -> str:
        """Return the path of such a file, as data files have it."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return the content of such a file; None if there is none."""

    @abstractmethod
    def drop(self, names: Sequence[str]) -> None:
        """Delete such files, as far as they are there."""


def upserts_among(files: Sequence[DataFile]) -> list[str]:
    """Return the names of those staged files whose rows replace others."""
    return [str(one["upserts"]) for one in files if "upserts" in one]


def overwrites(files: Sequence[DataFile]) -> bool:
    """Return whether the rows of staged files replace the partitions they belong to."""
    return any(one.get(OVERWRITES) for one in files)
