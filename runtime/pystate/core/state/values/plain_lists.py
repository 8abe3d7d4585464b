"""Parses msgpack lists of byte strings or numbers from untrusted bytes.

Msgpack makes room for a list of the stated length before it reads it, nested lists too: a few bytes that state a thousand
lists in each other would take gigabytes. What is read here has no lists in it.
"""

from __future__ import annotations

from typing import Any

import msgpack

_SHORT, _LONG, LONGEST_LIST = 0x90, 0xDC, 0xDD


def list_head_bytes(data: bytes) -> int:
    """Return the size of the header of a msgpack list."""
    return {_LONG: 3, LONGEST_LIST: 5}.get(data[0], 1)


def unpack_flat(data: bytes | memoryview) -> list[Any]:
    """Return the items of a list.

    Raises:
        ValueError: It isn't a list, or it contains lists or maps.
    """
    view = memoryview(data)
    first = view[0] if view else -1
    if first & 0xF0 == _SHORT:
        count, start = first & 0x0F, 1
    elif first == _LONG:
        count, start = int.from_bytes(view[1:3], "big"), 3
    elif first == LONGEST_LIST:
        count, start = int.from_bytes(view[1:5], "big"), 5
    else:
        message = "no list"
        raise ValueError(message)
    unpacker = msgpack.Unpacker(max_buffer_size=0, max_array_len=0, max_map_len=0, max_ext_len=0)  # a buffer of any size
    unpacker.feed(view[start:])
    items = list(unpacker)
    if len(items) != count or unpacker.tell() != len(view) - start:
        message = f"{len(items)} whole items where {count} are stated"
        raise ValueError(message)
    return items
