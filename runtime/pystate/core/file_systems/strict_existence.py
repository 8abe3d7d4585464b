"""Existence checks that raise where the filesystem failed, instead of saying no."""

from __future__ import annotations

from typing import Any

from pystate.core.file_systems.file_info import kind_of


class StrictExistence:
    """Mixin for filesystems whose `info` raises FileNotFoundError only for missing files; fsspec takes all errors for no."""

    def isdir(self, path: str) -> bool:
        """Whether it is a directory; other errors are raised."""
        return kind_of(self, path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether it is a file; other errors are raised."""
        return kind_of(self, path) == "file"

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is anything; other errors are raised."""
        return kind_of(self, path) is not None
