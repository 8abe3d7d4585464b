"""Writing to files that may take less than they are given."""

from __future__ import annotations

from typing import Any


def write_fully(file: Any, data: bytes | bytearray | memoryview) -> None:
    """Write all of the bytes to a file, however many it takes at once."""
    with memoryview(data) as view:
        start = 0
        while start < len(view):
            with view[start:] as rest:
                written = file.write(rest)
            start = len(view) if written is None else start + written  # None: a file that doesn't count takes all
