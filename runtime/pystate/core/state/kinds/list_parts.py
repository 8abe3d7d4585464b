"""The parts of a list state in snapshots and rows: numbered sub-keys, and msgpack lists of the elements' bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from pystate.common.errors import CorruptSnapshotError
from pystate.core.state.formats.type_format import pack
from pystate.core.state.formats.untyped_format import unpack
from pystate.core.state.keys.namespaces import VOID_NAMESPACE

_NUMBER = struct.Struct(">Q")
NUMBER_BYTES = _NUMBER.size
pack_number: Callable[[int], bytes] = _NUMBER.pack
"""(number of a part of a list) -> the bytes after the namespace."""


def part_sub_key(number: int, prefix: bytes = VOID_NAMESPACE) -> bytes:
    """Return the sub-key of a part of a list; the prefix is its namespace."""
    return prefix + pack_number(number)


def part_number(sub_key: bytes, start: int) -> int:
    """Return the number of a part of a list from its sub-key, at `start`.

    Raises:
        CorruptSnapshotError: The sub-key is invalid.
    """
    if len(sub_key) != start + NUMBER_BYTES:
        message = "The number of a part of a list is damaged."
        raise CorruptSnapshotError(message)
    return int.from_bytes(sub_key[start:], "big")


def pack_part(elements: list[bytes]) -> bytes:
    """Return a part of a list with these elements."""
    return pack(elements)


def unpack_part(data: bytes) -> list[bytes]:
    """Return the elements of a part of a list.

    Raises:
        CorruptSnapshotError: The bytes are none.
    """
    try:
        elements = unpack(data)
    except ValueError as error:
        message = f"A part of a list is damaged: {error}."
        raise CorruptSnapshotError(message) from error
    if type(elements) is not list or not elements or not all(type(element) is bytes for element in elements):
        message = "A part of a list has no elements."
        raise CorruptSnapshotError(message)
    return elements


def list_parts(elements: Iterable[bytes], part_bytes: int) -> Iterator[list[bytes]]:
    """Split elements into parts of a given approximate size."""
    part: list[bytes] = []
    size = 0
    for element in elements:
        part.append(element)
        size += len(element)
        if size >= part_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part
