"""Files as splits: which one, and how far it is read."""

from __future__ import annotations

from typing import Any

from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.source import SourceSplit


class FileSourceSplit(SourceSplit):
    """A file from a position on.

    Attributes:
        file: As said.
        position: What it counts is the format's; 0 for the begin.
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
        """Return the split of which `to_plain` returned this."""
        uri, modified_ms, position = plain
        return FileSourceSplit(FoundFile(str(uri), int(modified_ms)), int(position))
