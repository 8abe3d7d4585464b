"""Looks at a path that tell "nothing is there" from "nobody can tell"."""

from __future__ import annotations

from typing import Any

from pystate.file_systems.looks import kind_of


class CertainLooks:
    """For a filesystem whose `info` can be trusted: fsspec's own methods take each error for a no."""

    def isdir(self, path: str) -> bool:
        """Whether it is a directory; an error isn't taken for a no."""
        return kind_of(self, path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether it is a file; an error isn't taken for a no."""
        return kind_of(self, path) == "file"

    def exists(self, path: str, **_: Any) -> bool:
        """Whether something is there; an error isn't taken for a no."""
        return kind_of(self, path) is not None
