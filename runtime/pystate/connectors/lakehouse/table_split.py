"""The splits of a source of a table: a data file and the number of rows read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import CorruptSnapshotError
from pystate.connectors.lakehouse.source_table import DataFile
from pystate.connectors.source import SourceSplit

VERSION = 1
"""The format version of the plain forms of splits and enumerators."""
_FIELDS = 4
_FOUND_FIELDS = 3


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


def position_of(splits: Sequence[Any], is_file: Callable[[DataFile], bool]) -> str | None:
    """Return how far a table was read, as JSON: the files that are left, their versions, the rows read of them.

    Args:
        splits: Plain forms, perhaps of another system's splits.
        is_file: Whether a file is one of this system.

    Returns:
        None if they are another system's.
    """
    for plain in splits:
        if not isinstance(plain, (list, tuple)) or len(plain) != _FIELDS or not isinstance(plain[2], dict):
            return None
        if "path" not in plain[2] or not is_file(plain[2]):
            return None
    found = list(map(TableSplit.of, splits))
    versions = {split.version for split in found}
    return json.dumps({"files": len(found), "versions": sorted(versions), "rows": sum(split.read for split in found)})


def position_of_read_table(found: Any) -> str | None:
    """Return how far a table was read of which no file is left, as JSON: the version up to which its files were found.

    Args:
        found: What the enumerator keeps; perhaps another system's.

    Returns:
        None if it isn't that of a table, or nothing was found yet. Tables of all systems are alike.
    """
    if not isinstance(found, (list, tuple)) or len(found) != _FOUND_FIELDS:
        return None
    version, identity, position = found
    if version != VERSION or not isinstance(identity, str) or not isinstance(position, int) or position < 0:
        return None
    return json.dumps({"version": position})


def describe_position(position: Any) -> str | None:
    """Return in words what one of the two above returned, of its parsed JSON; None for anything else."""
    if isinstance(position, dict) and position.keys() == {"version"}:
        return f"all files up to version {position['version']} read"
    if not isinstance(position, dict) or position.keys() != {"files", "versions", "rows"}:
        return None
    files, versions, rows = position["files"], position["versions"], position["rows"]
    left = f"{files:,} file{_s(files)} of version{_s(len(versions))} {', '.join(map(str, versions))} to be read"
    return f"{left}, {rows:,} row{_s(rows)} of them read"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def check_version(plain: Any) -> None:
    """Check that a plain form is one that is known here.

    Raises:
        CorruptSnapshotError: It isn't.
    """
    if plain[0] != VERSION:
        message = f"The snapshot has a position in a table of version {plain[0]!r}; {VERSION} is known here."
        raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
