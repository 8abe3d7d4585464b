"""Existence checks that raise if the filesystem fails, instead of returning False."""

from __future__ import annotations

from typing import Any

from pystate.core.file_systems.file_info import kind_of


class StrictExistence:
    """Mixin for filesystems whose `info` raises FileNotFoundError for missing files only; fsspec catches all errors."""

    def isdir(self, path: str) -> bool:
        """Whether a path is a directory; other errors are raised."""
        return kind_of(self, path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether a path is a file; other errors are raised."""
        return kind_of(self, path) == "file"

    def exists(self, path: str, **_: Any) -> bool:
        """Whether a path exists; other errors are raised."""
        return kind_of(self, path) is not None
