"""The bytes of untyped keys, by their Python type; declared ones are written by the format of their type. `pystate-key-1`.

What both are made of is in `core/state/formats/key_bytes.py`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pystate.common.errors import StateError
from pystate.common.row import Row, is_row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation
from pystate.core.state.formats.all_formats import known_format
from pystate.core.state.formats.key_bytes import (
    TAG_BIG_DEC,
    TAG_BIG_INT,
    TAG_BINARY,
    TAG_BOOLEAN,
    TAG_DATE,
    TAG_DOUBLE,
    TAG_INSTANT,
    TAG_LIST,
    TAG_LONG,
    TAG_NULL,
    TAG_ROW,
    TAG_STRING,
    TAG_TIME,
    TAG_TIMESTAMP,
    TAG_TUPLE,
    TAG_ZONED_TIMESTAMP,
    damaged_key,
    element,
    row_head,
    split_elements,
    split_row_head,
    tag_name,
)
from pystate.core.state.formats.number_formats import big_to_bytes
from pystate.core.state.formats.scalar_formats import SCALARS
from pystate.core.state.formats.text_formats import Binary
from pystate.core.state.formats.time_formats import decode_zoned_key, encode_zoned_key

KEY_ENCODING = "pystate-key-1"
"""The name of this encoding, which is part of every snapshot."""

_MAX_DEPTH = 50

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

_SCALARS: dict[int, tuple[Encoder, Decoder]] = {
    form.tag: (form.encode_key, form.decode_key) for form in (*SCALARS.values(), Binary("BINARY")) if form.tag is not None
} | {TAG_ZONED_TIMESTAMP: (encode_zoned_key, decode_zoned_key)}


def type_tag(type_info: TypeInformation | None) -> int | None:
    """Return the tag of keys of a type.

    None for untyped keys (None), whose tag depends on the key, and for types that can't be keys (MAP, PICKLED_BYTE_ARRAY).
    """
    return known_format(type_info).tag


def _auto(key: Any, depth: int) -> tuple[int, bytes]:
    scalar = _AUTO_TAGS.get(type(key))
    if scalar is not None:
        if scalar == TAG_LONG and not -(1 << 63) <= key < 1 << 63:
            return TAG_BIG_INT, big_to_bytes(key)
        if scalar == TAG_TIMESTAMP and key.tzinfo is not None:
            scalar = TAG_ZONED_TIMESTAMP
        return scalar, _SCALARS[scalar][0](key)
    if depth >= _MAX_DEPTH:
        message = f"A key can't be nested deeper than {_MAX_DEPTH} levels."
        raise StateError(message)
    if type(key) is tuple or type(key) is list or is_row(key):
        elements = b"".join(element(TAG_NULL, b"") if part is None else element(*_auto(part, depth + 1)) for part in key)
        if is_row(key):
            return TAG_ROW, row_head(key.get_row_kind(), key.field_names()) + elements
        return TAG_TUPLE if type(key) is tuple else TAG_LIST, elements
    if key is None:
        return TAG_NULL, b""
    message = f"A key can't be a {type(key).__module__}.{type(key).__qualname__}: {key!r}."
    raise StateError(message, hint="give key_by a key_type, or return a tuple of strings and numbers")


_AUTO_TAGS: dict[type, int] = {
    str: TAG_STRING,
    bytes: TAG_BINARY,
    bool: TAG_BOOLEAN,
    int: TAG_LONG,
    float: TAG_DOUBLE,
    Decimal: TAG_BIG_DEC,
    dt.date: TAG_DATE,
    dt.time: TAG_TIME,
    dt.datetime: TAG_TIMESTAMP,
    Instant: TAG_INSTANT,
}


def encode_auto(key: Any) -> bytes:
    """Return the bytes (tag byte and payload) of an untyped key, by its Python type.

    str is STRING, bool BOOLEAN, int LONG (BIG_INT beyond 64 bits), float DOUBLE, bytes BINARY; tuples, lists and rows of
    those.

    Raises:
        StateError: The key is of a type that has no bytes of its own.
    """
    tag, payload = _auto(key, 0)
    return bytes((tag,)) + payload


def decode_auto(data: bytes) -> Any:
    """Decode an untyped key.

    Raises:
        CorruptSnapshotError: The bytes aren't a valid key.
    """
    if not data:
        raise damaged_key(what="empty")
    return _decode_auto(data[0], data[1:], 0)


def _decode_auto(tag: int, payload: bytes, depth: int) -> Any:
    scalar = _SCALARS.get(tag)
    if scalar is not None:
        return scalar[1](payload)
    if depth >= _MAX_DEPTH:
        raise damaged_key(what="nested too deep")
    if tag == TAG_ROW:
        kind, names, payload = split_row_head(payload)
        row = Row.of_fields(names, _decode_elements(payload, depth))
        row.set_row_kind(kind)
        return row
    if tag == TAG_TUPLE:
        return tuple(_decode_elements(payload, depth))
    if tag == TAG_LIST:
        return _decode_elements(payload, depth)
    if tag == TAG_NULL and not payload:
        return None
    raise damaged_key(tag_name(tag))


def _decode_elements(data: bytes, depth: int) -> list[Any]:
    return [None if tag == TAG_NULL else _decode_auto(tag, payload, depth + 1) for tag, payload in split_elements(data)]
