"""The msgpack format of untyped values: self-describing, with extensions for types that msgpack doesn't have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgpack

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind, is_row
from pystate.common.time import Instant
from pystate.common.type_info import TypeKind
from pystate.core.state.formats.number_formats import INT64, big_to_bytes
from pystate.core.state.formats.scalar_formats import SCALARS
from pystate.core.state.formats.time_formats import EPOCH_UTC, MICROSECOND
from pystate.core.state.formats.type_format import Format, pack

# Extension codes of untyped values are part of snapshots: never renumber, never reuse.
EXT_TUPLE = 1
EXT_BIG_INT = 2
EXT_DECIMAL = 3
EXT_DATE = 4
EXT_TIME = 5
EXT_TIMESTAMP = 6
EXT_UTC_TIMESTAMP = 7
EXT_ROW = 8
EXT_INSTANT = 9

MAX_DEPTH = 64
"""How deep untyped values may be nested."""


def unpack(data: bytes) -> Any:
    """Return the plain data, with extensions decoded. Raises ValueError on damage."""
    return msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogatepass", ext_hook=_from_extension)


def unpack_plain(data: bytes) -> Any:
    """As `unpack`, several times as fast, for types without extensions and with text map keys only.

    What isn't of such a type comes back as something that is none of its values, too, or raises ValueError.
    """
    try:
        return msgpack.unpackb(data)
    except UnicodeDecodeError:  # lone surrogates, which take a slower way
        return unpack(data)


_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes})


class _Untyped(Format):
    """The format of untyped values: self-describing, with extensions for types that msgpack doesn't have."""

    name = "untyped"
    has_extensions = True
    immutable = False
    in_columns = False

    @override
    def check(self, value: Any) -> Any:
        kind = type(value)
        if kind not in _PLAIN_TYPES and kind is not list and kind is not dict and kind not in _EXTENSIONS:
            raise self._unsayable(value)
        return value

    @override
    def to_plain(self, value: Any) -> Any:
        return self._plain(value, 0, quick=False)

    @override
    def to_bytes(self, value: Any) -> bytes:
        try:
            return pack(self._plain(value, 0, quick=True))
        except OverflowError:  # an int beyond 64 bits: the quick way doesn't look at each number
            return pack(self._plain(value, 0, quick=False))

    @override
    def from_plain(self, plain: Any) -> Any:
        return plain

    def _unsayable(self, value: Any) -> StateError:
        return self.wrong(value, "give the state a type, as Types.PICKLED_BYTE_ARRAY(), or keep a list, dict, tuple or Row")

    def _plain(self, value: Any, depth: int, quick: bool) -> Any:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            if kind is int and not INT64[0] <= value <= INT64[1]:
                return msgpack.ExtType(EXT_BIG_INT, big_to_bytes(value))
            return value
        if depth >= MAX_DEPTH:
            message = f"An untyped value can't be nested deeper than {MAX_DEPTH} levels."
            raise StateError(message)
        if kind is list:
            if quick and _PLAIN_TYPES.issuperset(map(type, value)):
                return value
            return [self._plain(item, depth + 1, quick) for item in value]
        if kind is dict:
            if quick and _PLAIN_TYPES.issuperset(map(type, value)) and _PLAIN_TYPES.issuperset(map(type, value.values())):
                return value
            return {self._plain(key, depth + 1, quick): self._plain(item, depth + 1, quick) for key, item in value.items()}
        if kind is tuple:
            return msgpack.ExtType(EXT_TUPLE, pack([self._plain(item, depth + 1, quick) for item in value]))
        if kind is Row or is_row(value):
            names = value.get_field_names()
            values = [self._plain(item, depth + 1, quick) for item in value]
            return msgpack.ExtType(EXT_ROW, pack([value.get_row_kind().value, names, values]))
        if kind is dt.datetime and value.tzinfo is not None:
            if value.tzinfo is not dt.timezone.utc:
                raise self.wrong(value, "only datetime.timezone.utc can be kept exactly; convert it with astimezone")
            return msgpack.ExtType(EXT_UTC_TIMESTAMP, pack((value - EPOCH_UTC) // MICROSECOND))
        extension = _EXTENSIONS.get(kind)
        if extension is None:
            raise self._unsayable(value)
        code, form = extension
        return msgpack.ExtType(code, pack(form.to_plain(value)))


UNTYPED = _Untyped()
_EXTENSIONS: dict[type, tuple[int, Format]] = {
    tuple: (EXT_TUPLE, UNTYPED),
    Row: (EXT_ROW, UNTYPED),
    Decimal: (EXT_DECIMAL, SCALARS[TypeKind.BIG_DEC]),
    dt.date: (EXT_DATE, SCALARS[TypeKind.SQL_DATE]),
    dt.time: (EXT_TIME, SCALARS[TypeKind.SQL_TIME]),
    dt.datetime: (EXT_TIMESTAMP, SCALARS[TypeKind.SQL_TIMESTAMP]),
    Instant: (EXT_INSTANT, SCALARS[TypeKind.INSTANT]),
}
_FORMAT_OF_CODE = {code: form for code, form in _EXTENSIONS.values() if form is not UNTYPED}


def _from_extension(code: int, data: bytes) -> Any:
    if code == EXT_BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    plain = unpack(data)
    if code == EXT_TUPLE and type(plain) is list:
        return tuple(plain)
    if code == EXT_ROW:
        kind, names, values = plain
        row = Row.of_fields(None if names is None else tuple(names), values)
        row.set_row_kind(RowKind(kind))
        return row
    if code == EXT_UTC_TIMESTAMP:
        return EPOCH_UTC + plain * MICROSECOND
    if code in _FORMAT_OF_CODE:
        return _FORMAT_OF_CODE[code].from_plain(plain)
    message = f"unknown msgpack extension {code}"
    raise ValueError(message)
