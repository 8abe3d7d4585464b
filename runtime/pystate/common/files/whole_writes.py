"""Complete writes to files that may accept only a part of the data."""

from __future__ import annotations

from typing import Any


def write_fully(file: Any, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes to a file, which may accept only a part per call."""
    with memoryview(data) as view:
        start = 0
        while start < len(view):
            with view[start:] as rest:
                written = file.write(rest)
            start = len(view) if written is None else start + written  # None: a file that doesn't count takes all
