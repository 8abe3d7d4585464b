"""Frames on a connection: four bytes of length, big-endian, and that many bytes.

`multiprocessing.connection` frames short messages in the same way, so that a connection of `control.py` can go on here.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">I")
HEAD_BYTES = _HEAD.size
LONGEST_FRAME = 0x7FFFFFFF
"""The bytes of the longest frame that `multiprocessing.connection` writes with such a length."""
NO_MESSAGE = (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError)
"""The errors raised by reading data of a wrong type."""


class FrameTooLargeError(Exception):
    """A frame exceeds the maximum length."""


def framed(payload: bytes) -> bytes:
    """Return bytes as a frame."""
    return _HEAD.pack(len(payload)) + payload


class FrameReader:
    """Splits received data into frames.

    Args:
        most: The maximum size of a frame in bytes; may be changed later.

    Attributes:
        most: The same.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add received data."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """Return the next frame; None if it is incomplete.

        Raises:
            FrameTooLargeError: It is larger than the bound.
        """
        if len(self._buffer) < HEAD_BYTES:
            return None
        (length,) = _HEAD.unpack_from(self._buffer)
        if length > self.most:
            raise FrameTooLargeError
        end = HEAD_BYTES + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            payload = bytes(view[HEAD_BYTES:end])
        del self._buffer[:end]
        return payload
