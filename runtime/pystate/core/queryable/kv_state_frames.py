"""Frames of the client's protocol: four bytes of length, big-endian, and a msgpack map.

Each request has an `id`, which its answer repeats, so that several may be pending on one connection:

    {"id", "op": "locate", "job", "name"}                       -> {"id", "outcome", "message", "states"}
    {"id", "op": "read", "job", "consistency", "reads": [...]}   -> {"id", "outcome", "message", "answers", "now"}

If clients may query slots directly, the first answer has the "places" of a state that was requested by name: {"attempt",
"addresses" (by subtask), "salt", "key"}, with the secret for slots (`handshake.py`); the second has the "attempt" whose
slots answered. Slots use the protocol of `common/processes/control.py`, with the same "op": "read".
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from pystate.core.queryable.kv_state_messages import MAX_READS

_HEAD = struct.Struct(">I")
HEAD_BYTES = _HEAD.size
_MOST_FIELDS = 64
NO_MESSAGE = (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError)
"""The errors raised by reading data of a wrong type."""


class FrameTooLargeError(Exception):
    """A frame exceeds the maximum length."""


def pack_frame(message: dict[str, Any]) -> bytes:
    """Return a message as a frame."""
    payload: bytes = msgpack.packb(message)
    return _HEAD.pack(len(payload)) + payload


def pack_reply(message: dict[str, Any]) -> bytes:
    """Return the answer of a slot as a frame. Any Python text is allowed, since error messages have arbitrary origins."""
    payload: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
    return _HEAD.pack(len(payload)) + payload


def unpack_request(payload: bytes) -> dict[str, Any]:
    """Return the message of an untrusted frame.

    Raises:
        ValueError, TypeError, LookupError, OverflowError: It is none.
    """
    message = msgpack.unpackb(payload, max_array_len=MAX_READS, max_map_len=_MOST_FIELDS)
    if type(message) is not dict:
        text = "a message is a map"
        raise ValueError(text)
    return message


def unpack_answer(payload: bytes) -> dict[str, Any]:
    """Return the message of a frame of an authenticated peer.

    Raises:
        ValueError, TypeError, LookupError: It is none.
    """
    message = msgpack.unpackb(payload, strict_map_key=False)
    if type(message) is not dict:
        text = "a message is a map"
        raise ValueError(text)
    return message


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
