"""What keys of all types are written with: their tags, the elements of composite ones, and errors. `pystate-key-1`.

The encoding is injective (two keys have the same bytes exactly if they have the same type and are equal) and canonical:
values of one type that are equal are one key, so -0.0 is 0.0, all NaNs are one key, Decimal("1.0") is Decimal("1").

Payloads of the tags in `NATIVE_TAGS` are the bytes that Spark's `hash()` uses for a column of that type, so that the JVM
computes the same key group from the column. Inside composites each element is: tag byte, payload length (4 bytes,
little-endian), payload.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from pystate.common.errors import CorruptSnapshotError, StateError
from pystate.common.row import RowKind

# Tags are part of snapshots: never renumber, never reuse.
TAG_NULL = 0  # None; empty
TAG_STRING = 1  # UTF-8
TAG_BINARY = 2  # the bytes
TAG_BOOLEAN = 3  # 4 bytes little-endian, 0 or 1
TAG_BYTE = 4  # 4 bytes little-endian
TAG_SHORT = 5  # 4 bytes little-endian
TAG_INT = 6  # 4 bytes little-endian
TAG_LONG = 7  # 8 bytes little-endian
TAG_FLOAT = 8  # IEEE 754, 4 bytes little-endian
TAG_DOUBLE = 9  # IEEE 754, 8 bytes little-endian
TAG_BIG_INT = 10  # two's complement, big-endian, minimal length; untyped only beyond 64 bits
TAG_BIG_DEC = 11  # ASCII: sign, digits without trailing zeros, E, exponent
TAG_DATE = 12  # days since 1970-01-01, 4 bytes little-endian
TAG_TIME = 13  # microseconds since midnight, 8 bytes little-endian
TAG_TIMESTAMP = 14  # without time zone: microseconds since 1970-01-01T00:00, 8 bytes little-endian
TAG_INSTANT = 15  # seconds since the epoch, 8 bytes, and nanoseconds, 4 bytes, little-endian
TAG_CHAR = 16  # UTF-8
TAG_TUPLE = 17  # elements
TAG_LIST = 18  # elements
TAG_ROW = 19  # kind (1 byte), count of names + 1 or 0 where unnamed (4 bytes), names (4 bytes length, UTF-8), elements
TAG_ZONED_TIMESTAMP = 20  # a datetime with a time zone, as UTC: microseconds since the epoch, 8 bytes little-endian

NATIVE_TAGS = frozenset(
    {
        TAG_STRING,
        TAG_BINARY,
        TAG_BOOLEAN,
        TAG_BYTE,
        TAG_SHORT,
        TAG_INT,
        TAG_LONG,
        TAG_FLOAT,
        TAG_DOUBLE,
        TAG_DATE,
        TAG_TIMESTAMP,
    }
)
"""Tags whose payload is what Spark hashes for a column of that type (TIMESTAMP: TimestampNTZType)."""

TAG_NAMES = {
    value: name.removeprefix("TAG_")
    for name, value in list(globals().items())
    if name.startswith("TAG_") and isinstance(value, int)
}

NULL_KEY = bytes((TAG_NULL,))
"""The bytes of the key None, whatever the type of the others."""

_ELEMENT = struct.Struct("<BI")
_LONG_BYTES = 8


def tag_name(tag: int) -> str:
    """Return the name of a tag, for errors."""
    return TAG_NAMES.get(tag, f"unknown tag {tag}")


def wrong_key(value: object, wanted: str) -> StateError:
    """Return the error for a key of another type."""
    message = f"A key of type {wanted} can't be {value!r} ({type(value).__name__})."
    if value is None:
        message = f"A key can't be null (its type is {wanted})."
    return StateError(message, hint="convert it in key_by, or change key_type")


def damaged_key(what: str) -> CorruptSnapshotError:
    """Return the error for bytes that are no key."""
    message = f"The bytes of a key are damaged: {what}."
    return CorruptSnapshotError(message)


def expect(data: bytes, size: int) -> bytes:
    """Return bytes that must have this size."""
    if len(data) != size:
        raise damaged_key(what=f"{len(data)} bytes where {size} belong")
    return data


def text_bytes(text: str) -> bytes:
    """Return the payload of a text; lone surrogates are encoded, too."""
    return text.encode("utf-8", "surrogatepass")


def text_of(data: bytes) -> str:
    """Return the text of a payload."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise damaged_text() from error


def damaged_text() -> CorruptSnapshotError:
    """Return the error for bytes that are no text."""
    return damaged_key(what="not UTF-8")


def element(tag: int, payload: bytes) -> bytes:
    """Return an element of a composite key."""
    return _ELEMENT.pack(tag, len(payload)) + payload


def long_elements(count: int) -> Callable[[Sequence[int]], bytes]:
    """Return (so many integers of 64 bits) -> the elements of a composite key."""
    pack = struct.Struct("<" + "BIq" * count).pack
    heads = [TAG_LONG, _LONG_BYTES, 0] * count

    def elements(values: Sequence[int]) -> bytes:
        fields = heads[:]
        fields[2::3] = values
        return pack(*fields)

    return elements


def split_elements(data: bytes) -> list[tuple[int, bytes]]:
    """Return tag and payload of each element of a composite key."""
    found: list[tuple[int, bytes]] = []
    position, size = 0, len(data)
    while position < size:
        if size - position < _ELEMENT.size:
            raise damaged_key(what="an element is cut off")
        tag, length = _ELEMENT.unpack_from(data, position)
        position += _ELEMENT.size
        if length > size - position or (tag == TAG_NULL and length):
            raise damaged_key(what="an element is cut off")
        found.append((tag, data[position : position + length]))
        position += length
    return found


def row_head(kind: RowKind, names: tuple[str, ...] | None) -> bytes:
    """Return what stands before the elements of a row."""
    pieces = [struct.pack("<BI", kind.value, 0 if names is None else len(names) + 1)]
    for name in names or ():
        encoded = text_bytes(name)
        pieces.append(struct.pack("<I", len(encoded)) + encoded)
    return b"".join(pieces)


def split_row_head(data: bytes) -> tuple[RowKind, tuple[str, ...] | None, bytes]:
    """Return kind and names of a row, and the bytes of its elements."""
    try:
        kind, count = struct.unpack_from("<BI", data)
        position, names = 5, []
        for _ in range(count - 1):
            (length,) = struct.unpack_from("<I", data, position)
            position += 4
            names.append(text_of(expect(data[position : position + length], length)))
            position += length
        return RowKind(kind), None if count == 0 else tuple(names), data[position:]
    except (struct.error, ValueError) as error:
        raise damaged_key(what="a row is cut off") from error
