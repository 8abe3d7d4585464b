"""Small files of a directory on the storage that carry a number in their names, such as that of a checkpoint."""

from __future__ import annotations

import re

from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


class NumberedFiles:
    """The files with one prefix; each write makes another file, so that none is ever half written.

    Args:
        location: The directory.
        prefix: What their names begin with: `epoch` for `epoch-7-0a1b2c`.
    """

    def __init__(self, location: SnapshotLocation, prefix: str) -> None:
        self._location = location
        self._prefix = prefix
        self._name = re.compile(rf"{re.escape(prefix)}-(\d+)-[0-9a-f]+")

    def write(self, number: int, data: bytes) -> str | None:
        """Write a file, and return its name.

        Raises:
            SnapshotError: The storage failed.
        """
        handle = self._location.write_state(f"{self._prefix}-{number}", lambda file: file.write(data), 0)
        return handle.path if isinstance(handle, FileStateHandle) else None

    def newest_first(self) -> list[tuple[str, int]]:
        """Return the name and the number of each file, the highest number first.

        Raises:
            SnapshotError: The storage failed.
        """
        found = ((name, self._name.fullmatch(name)) for name in self._location.file_names())
        return sorted(((name, int(match[1])) for name, match in found if match is not None), key=lambda file: -file[1])

    def clear(self, but: str | None = None) -> None:
        """Delete all files, but that of a name.

        Raises:
            SnapshotError: The storage failed.
        """
        for name, _ in self.newest_first():
            if name != but:
                self._location.remove(name)
