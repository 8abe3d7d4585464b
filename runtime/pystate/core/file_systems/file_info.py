"""Kind of a file and scheme of a filesystem, for every filesystem of fsspec."""

from __future__ import annotations

from typing import Any


def kind_of(fs: Any, path: str) -> str | None:
    """Return the kind of a path: `file`, `directory`, or None if it doesn't exist.

    `exists()` of many filesystems says no where they can't tell, and what isn't there is cleaned up.

    Raises:
        Exception: The filesystem can't tell.
    """
    try:
        return str(fs.info(path)["type"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def scheme_of(fs: Any) -> str:
    """Return the name of a filesystem's scheme, for messages."""
    protocol = fs.protocol
    name = protocol if isinstance(protocol, str) else str(protocol[0])
    return "hdfs" if name.lower() == "webhdfs" else name
