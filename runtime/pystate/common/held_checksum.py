"""Checksums computed without releasing the interpreter lock."""

from __future__ import annotations

import zlib

STEP_BYTES = 5 * 1024
"""`zlib.crc32` lets the interpreter go for more than so many bytes. 256 KB take it 80 us; beside another thread that is
always busy it has the interpreter back after Python's switch interval, 5 ms."""


def held_crc32(data: bytes | memoryview, value: int = 0) -> int:
    """Return `zlib.crc32(data, value)` of bytes, without releasing the interpreter lock."""
    if len(data) <= STEP_BYTES:
        return zlib.crc32(data, value)
    view = memoryview(data)
    for start in range(0, len(view), STEP_BYTES):
        value = zlib.crc32(view[start : start + STEP_BYTES], value)
    return value
