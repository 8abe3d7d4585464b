"""The splits of a source of a table: a data file and the number of rows read."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import CorruptSnapshotError
from pystate.connectors.lakehouse.source_table import DataFile
from pystate.connectors.source import SourceSplit

VERSION = 1
"""Of the plain forms of splits and enumerators."""


class TableSplit(SourceSplit):
    """A file of a table from a row on.

    Attributes:
        version: That of the table which it was found in.
        file: The file.
        read: How many of its rows were read.
    """

    def __init__(self, version: int, file: DataFile, read: int = 0) -> None:
        self.version = version
        self.file = file
        self.read = read

    def split_id(self) -> str:
        """Return version and file."""
        return f"{self.version}:{self.file['path']}"

    def to_plain(self) -> list[Any]:
        """Return format, version, file and position."""
        return [VERSION, self.version, self.file, self.read]

    @staticmethod
    def of(plain: Any) -> TableSplit:
        """Return the split of which `to_plain` returned this.

        Raises:
            CorruptSnapshotError: It isn't of this version.
        """
        check_version(plain)
        _, version, file, read = plain
        return TableSplit(int(version), dict(file), int(read))


def check_version(plain: Any) -> None:
    """Check that a plain form is one that is known here.

    Raises:
        CorruptSnapshotError: It isn't.
    """
    if plain[0] != VERSION:
        message = f"The snapshot has a position in a table of version {plain[0]!r}; {VERSION} is known here."
        raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
