"""Frames of the client's protocol: four bytes of length, big-endian, and a msgpack map.

Each request has an `id`, which its answer repeats, so that several may be pending on one connection:

    {"id", "op": "locate", "job", "name"}                       -> {"id", "outcome", "message", "states"}
    {"id", "op": "read", "job", "consistency", "reads": [...]}   -> {"id", "outcome", "message", "answers", "now"}

If clients may query slots directly, the first answer has the "places" of a state that was requested by name: {"attempt",
"addresses" (by subtask), "salt", "key"}, with the secret for slots (`handshake.py`); the second has the "attempt" whose
slots answered. Slots use the protocol of `common/processes/control.py`, with the same "op": "read".
"""

from __future__ import annotations

from typing import Any

import msgpack

from pystate.common.processes.length_prefixed_frames import framed
from pystate.core.queryable.kv_state_messages import MAX_READS

_MOST_FIELDS = 64


def pack_frame(message: dict[str, Any]) -> bytes:
    """Return a message as a frame."""
    payload: bytes = msgpack.packb(message)
    return framed(payload)


def pack_reply(message: dict[str, Any]) -> bytes:
    """Return the answer of a slot as a frame. Any Python text is allowed, since error messages have arbitrary origins."""
    payload: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
    return framed(payload)


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
