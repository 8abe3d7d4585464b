"""The splits of a file source: a file and the position in it."""

from __future__ import annotations

from typing import Any

from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.source import SourceSplit


class FileSourceSplit(SourceSplit):
    """A file from a position on.

    Attributes:
        file: As said.
        position: In the unit of the format; 0 for the beginning.
    """

    def __init__(self, file: FoundFile, position: int = 0) -> None:
        self.file = file
        self.position = position

    def split_id(self) -> str:
        """Return the file."""
        return self.file.uri

    def to_plain(self) -> list[Any]:
        """Return file and position."""
        return [self.file.uri, self.file.modified_ms, self.position]

    @staticmethod
    def of(plain: Any) -> FileSourceSplit:
        """Return the split from its plain form."""
        uri, modified_ms, position = plain
        return FileSourceSplit(FoundFile(str(uri), int(modified_ms)), int(position))
