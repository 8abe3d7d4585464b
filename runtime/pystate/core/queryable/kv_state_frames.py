"""Frames of the client's protocol: four bytes of length, big-endian, and a msgpack map.

Each request has an `id`, which its answer repeats, so that many may be under way on one connection:

    {"id", "op": "locate", "job", "name"}                       -> {"id", "outcome", "message", "states"}
    {"id", "op": "read", "job", "consistency", "reads": [...]}   -> {"id", "outcome", "message", "answers", "now"}

Where clients may ask slots themselves, the first answer has "places" of a state that was asked for by name: {"attempt",
"addresses" (by subtask), "salt", "key"}, with what slots ask to be proven (`handshake.py`); the second has the "attempt"
whose slots answered. Slots speak as `common/processes/control.py` does, and take the same "op": "read".
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
"""What comes of reading data as something that it isn't."""


class FrameTooLargeError(Exception):
    """A frame says that it is longer than is read of one."""


def pack_frame(message: dict[str, Any]) -> bytes:
    """Return a message as a frame."""
    payload: bytes = msgpack.packb(message)
    return _HEAD.pack(len(payload)) + payload


def pack_reply(message: dict[str, Any]) -> bytes:
    """Return what a slot answers as a frame. Text may be any of Python's: what an error says has come from anywhere."""
    payload: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
    return _HEAD.pack(len(payload)) + payload


def unpack_request(payload: bytes) -> dict[str, Any]:
    """Return the message of a frame that anybody may have sent.

    Raises:
        ValueError, TypeError, LookupError, OverflowError: It is none.
    """
    message = msgpack.unpackb(payload, max_array_len=MAX_READS, max_map_len=_MOST_FIELDS)
    if type(message) is not dict:
        text = "a message is a map"
        raise ValueError(text)
    return message


def unpack_answer(payload: bytes) -> dict[str, Any]:
    """Return the message of a frame of a peer that has proven the token.

    Raises:
        ValueError, TypeError, LookupError: It is none.
    """
    message = msgpack.unpackb(payload, strict_map_key=False)
    if type(message) is not dict:
        text = "a message is a map"
        raise ValueError(text)
    return message


class FrameReader:
    """Cuts what arrives into frames.

    Args:
        most: How many bytes a frame may have; may be changed later.

    Attributes:
        most: The same.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """Return the next frame; None if it isn't whole yet.

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
