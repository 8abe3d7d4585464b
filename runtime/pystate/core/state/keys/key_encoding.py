"""The bytes of a key: a tag byte for its type and a payload. `pystate-key-1`.

The encoding is injective (two keys have the same bytes exactly if they have the same type and are equal) and canonical:
values of one type that are equal are one key, so -0.0 is 0.0, all NaNs are one key, Decimal("1.0") is Decimal("1").

Payloads of the tags in `NATIVE_TAGS` are the bytes that Spark's `hash()` uses for a column of that type, so that the JVM
computes the same key group from the column. Inside composites each element is: tag byte, payload length (4 bytes,
little-endian), payload.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.row import Row, RowKind, is_row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import SCALAR_RULES, WrongValueError, as_bytes, as_list, as_row, as_tuple

KEY_ENCODING = "pystate-key-1"
"""The name of this encoding, which is part of every snapshot."""

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

_MAX_DEPTH = 50
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a time zone count from a naive epoch
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_ELEMENT = struct.Struct("<BI")

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]


def tag_name(tag: int) -> str:
    """Return the name of a tag, for errors."""
    return TAG_NAMES.get(tag, f"unknown tag {tag}")


def _wrong(value: object, wanted: str) -> StateError:
    message = f"A key of type {wanted} can't be {value!r} ({type(value).__name__})."
    if value is None:
        message = f"A key can't be null (its type is {wanted})."
    return StateError(message, hint="convert it in key_by, or change key_type")


def _right(value: Any, kind: TypeKind) -> Any:
    """Convert a value by the rule of its type."""
    try:
        if value is not None:
            return SCALAR_RULES[kind](value)
    except WrongValueError:
        pass
    raise _wrong(value, kind.value)


def _outside(value: Any, conform: Callable[[Any, TypeInformation], Any], type_info: TypeInformation) -> Any:
    try:
        return conform(value, type_info)
    except WrongValueError:
        raise _wrong(value, type_info.name) from None


def _damaged(what: str) -> CorruptSnapshotError:
    message = f"The bytes of a key are damaged: {what}."
    return CorruptSnapshotError(message)


def _expect(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise _damaged(what=f"{len(data)} bytes where {size} belong")
    return data


def _text(value: Any) -> bytes:
    text: str = value if type(value) is str else _right(value, TypeKind.STRING)
    return text.encode("utf-8", "surrogatepass")


def _from_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise _damaged(what="not UTF-8") from error


def _char(value: Any) -> bytes:
    text: str = value if type(value) is str and len(value) == 1 else _right(value, TypeKind.CHAR)
    return text.encode("utf-8", "surrogatepass")


def _binary(value: Any) -> bytes:
    if type(value) is not bytes:
        try:
            return as_bytes(value, "BINARY")
        except WrongValueError:
            raise _wrong(value, "BINARY") from None
    return value


def _identity(data: bytes) -> bytes:
    return data


def _boolean(value: Any) -> bytes:
    if type(value) is not bool:
        value = _right(value, TypeKind.BOOLEAN)
    return b"\x01\x00\x00\x00" if value else b"\x00\x00\x00\x00"


def _from_boolean(data: bytes) -> bool:
    number = int.from_bytes(_expect(data, 4), "little")
    if number > 1:
        raise _damaged(what="a BOOLEAN that is neither 0 nor 1")
    return number == 1


def _integer(name: str, bits: int, size: int) -> tuple[Encoder, Decoder]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def encode(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            value = _right(value, TypeKind(name))
        data: bytes = value.to_bytes(size, "little", signed=True)
        return data

    def decode(data: bytes) -> int:
        value = int.from_bytes(_expect(data, size), "little", signed=True)
        if not low <= value <= high:
            raise _damaged(what=f"a {name} out of its range")
        return value

    return encode, decode


def _floating(name: str, layout: struct.Struct, nan: bytes) -> tuple[Encoder, Decoder]:
    def encode(value: Any) -> bytes:
        if type(value) is not float and type(value) is not int:
            value = _right(value, TypeKind(name))
        try:
            number = float(value)
            return nan if math.isnan(number) else layout.pack(number + 0.0)  # -0.0 + 0.0 is 0.0
        except OverflowError:
            raise _wrong(value, name) from None

    def decode(data: bytes) -> float:
        return float(layout.unpack(_expect(data, layout.size))[0])

    return encode, decode


def _big_int(value: Any) -> bytes:
    number: int = value if type(value) is int else _right(value, TypeKind.BIG_INT)
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _from_big_int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _decimal(value: Any) -> bytes:
    if type(value) is not Decimal or not value.is_finite():
        value = _right(value, TypeKind.BIG_DEC)
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return b"0E0"
    return f"{'-' if sign else ''}{short}E{int(exponent) + len(text) - len(short)}".encode()


def _from_decimal(data: bytes) -> Decimal:
    try:
        return Decimal(data.decode("ascii"))
    except (ArithmeticError, ValueError) as error:
        raise _damaged(what="not a decimal number") from error


def _date(value: Any) -> bytes:
    date: dt.date = value if type(value) is dt.date else _right(value, TypeKind.SQL_DATE)
    return (date.toordinal() - _EPOCH_DAY).to_bytes(4, "little", signed=True)


def _from_date(data: bytes) -> dt.date:
    try:
        return dt.date.fromordinal(int.from_bytes(_expect(data, 4), "little", signed=True) + _EPOCH_DAY)
    except (ValueError, OverflowError) as error:
        raise _damaged(what="a date out of its range") from error


def _time(value: Any) -> bytes:
    time: dt.time = value if type(value) is dt.time and value.tzinfo is None else _right(value, TypeKind.SQL_TIME)
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return (seconds * 1_000_000 + time.microsecond).to_bytes(8, "little", signed=True)


def _from_time(data: bytes) -> dt.time:
    micros = int.from_bytes(_expect(data, 8), "little", signed=True)
    if not 0 <= micros < 86_400_000_000:
        raise _damaged(what="a time out of its range")
    return (_EPOCH + micros * _MICROSECOND).time()


def _timestamp(value: Any) -> bytes:
    is_right = type(value) is dt.datetime and value.tzinfo is None
    at: dt.datetime = value if is_right else _right(value, TypeKind.SQL_TIMESTAMP)
    return ((at - _EPOCH) // _MICROSECOND).to_bytes(8, "little", signed=True)


def _zoned(value: Any) -> bytes:
    if type(value) is not dt.datetime or value.utcoffset() is None:
        raise _wrong(value, "datetime with a time zone")
    return ((value - _EPOCH_UTC) // _MICROSECOND).to_bytes(8, "little", signed=True)


def _since(epoch: dt.datetime) -> Decoder:
    def decode(data: bytes) -> dt.datetime:
        try:
            return epoch + int.from_bytes(_expect(data, 8), "little", signed=True) * _MICROSECOND
        except OverflowError as error:
            raise _damaged(what="a timestamp out of its range") from error

    return decode


def _instant(value: Any) -> bytes:
    if type(value) is not Instant or not -(1 << 63) <= value.seconds < 1 << 63:
        raise _wrong(value, "INSTANT")  # nothing else becomes one
    return struct.pack("<qI", value.seconds, value.nanos)


def _from_instant(data: bytes) -> Instant:
    seconds, nanos = struct.unpack("<qI", _expect(data, 12))
    if nanos >= 1_000_000_000:
        raise _damaged(what="an instant out of its range")
    return Instant(seconds, nanos)


_LONG = _integer("LONG", 64, 8)
_SCALARS: dict[int, tuple[Encoder, Decoder]] = {
    TAG_STRING: (_text, _from_text),
    TAG_BINARY: (_binary, _identity),
    TAG_BOOLEAN: (_boolean, _from_boolean),
    TAG_BYTE: _integer("BYTE", 8, 4),
    TAG_SHORT: _integer("SHORT", 16, 4),
    TAG_INT: _integer("INT", 32, 4),
    TAG_LONG: _LONG,
    TAG_FLOAT: _floating("FLOAT", struct.Struct("<f"), b"\x00\x00\xc0\x7f"),
    TAG_DOUBLE: _floating("DOUBLE", struct.Struct("<d"), b"\x00\x00\x00\x00\x00\x00\xf8\x7f"),
    TAG_BIG_INT: (_big_int, _from_big_int),
    TAG_BIG_DEC: (_decimal, _from_decimal),
    TAG_DATE: (_date, _from_date),
    TAG_TIME: (_time, _from_time),
    TAG_TIMESTAMP: (_timestamp, _since(_EPOCH)),
    TAG_INSTANT: (_instant, _from_instant),
    TAG_CHAR: (_char, _from_text),
    TAG_ZONED_TIMESTAMP: (_zoned, _since(_EPOCH_UTC)),
}
_TAG_OF_KIND: dict[TypeKind, int] = {
    TypeKind.STRING: TAG_STRING,
    TypeKind.BOOLEAN: TAG_BOOLEAN,
    TypeKind.BYTE: TAG_BYTE,
    TypeKind.SHORT: TAG_SHORT,
    TypeKind.INT: TAG_INT,
    TypeKind.LONG: TAG_LONG,
    TypeKind.FLOAT: TAG_FLOAT,
    TypeKind.DOUBLE: TAG_DOUBLE,
    TypeKind.CHAR: TAG_CHAR,
    TypeKind.BIG_INT: TAG_BIG_INT,
    TypeKind.BIG_DEC: TAG_BIG_DEC,
    TypeKind.SQL_DATE: TAG_DATE,
    TypeKind.SQL_TIME: TAG_TIME,
    TypeKind.SQL_TIMESTAMP: TAG_TIMESTAMP,
    TypeKind.INSTANT: TAG_INSTANT,
    TypeKind.ROW: TAG_ROW,
    TypeKind.TUPLE: TAG_TUPLE,
    TypeKind.LIST: TAG_LIST,
    TypeKind.PRIMITIVE_ARRAY: TAG_LIST,
    TypeKind.BASIC_ARRAY: TAG_LIST,
    TypeKind.OBJECT_ARRAY: TAG_LIST,
}


def type_tag(type_info: TypeInformation | None) -> int | None:
    """Return the tag of keys of a type.

    None for untyped keys (None), whose tag depends on the key, and for types that can't be keys (MAP, PICKLED_BYTE_ARRAY).
    """
    if type_info is None:
        return None
    if type_info.kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE:
        return TAG_BINARY
    return _TAG_OF_KIND.get(type_info.kind)


class _Composite:
    """Encodes and decodes the elements of a declared TUPLE, ROW or list type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.parts = [(typed_codec(part), part) for part in type_info.elements]

    def elements(self, values: Sequence[Any]) -> bytes:
        parts = self.parts if self.type_info.kind in (TypeKind.ROW, TypeKind.TUPLE) else self.parts * len(values)
        if len(values) != len(parts):
            raise _wrong(values, self.type_info.name)
        pieces = []
        for value, ((tag, encode, _), _type) in zip(values, parts, strict=True):
            pieces.append(_element(TAG_NULL, b"") if value is None else _element(tag, encode(value)))
        return b"".join(pieces)

    def values(self, data: bytes) -> list[Any]:
        found = list(_split(data))
        parts = self.parts if self.type_info.kind in (TypeKind.ROW, TypeKind.TUPLE) else self.parts * len(found)
        if len(found) != len(parts):
            message = f"A key in the snapshot has {len(found)} parts, which doesn't fit the key type {self.type_info.name}."
            raise RestoreError(message)
        values: list[Any] = []
        for (tag, payload), ((wanted, _, decode), part) in zip(found, parts, strict=True):
            if tag == TAG_NULL:
                values.append(None)
                continue
            if tag != wanted:
                message = f"A part of a key in the snapshot is {tag_name(tag)}, which doesn't fit the declared {part.name}."
                raise RestoreError(message)
            values.append(decode(payload))
        return values

    def tuple_encode(self, value: Any) -> bytes:
        if type(value) is not tuple:
            value = _outside(value, as_tuple, self.type_info)
        return self.elements(value)

    def tuple_decode(self, data: bytes) -> tuple[Any, ...]:
        return tuple(self.values(data))

    def list_encode(self, value: Any) -> bytes:
        if type(value) is not list:
            value = _outside(value, as_list, self.type_info)
        return self.elements(value)  # None in a PRIMITIVE_ARRAY, too: keys of older snapshots have it

    def row_encode(self, value: Any) -> bytes:
        if not is_row(value):
            value = _outside(value, as_row, self.type_info)
        names, values = value.field_names(), value.values_list()
        wanted = self.type_info.names
        if names is not None and wanted is not None and names != wanted:
            if set(names) != set(wanted):
                raise _wrong(value, self.type_info.name)
            values = [value[name] for name in wanted]
        return _row_head(value.get_row_kind(), wanted) + self.elements(values)

    def row_decode(self, data: bytes) -> Row:
        kind, names, rest = _split_row_head(data)
        if names != self.type_info.names:
            message = (
                f"A key in the snapshot has the field names {names}, which doesn't fit the key type {self.type_info.name}."
            )
            raise RestoreError(message)
        row = Row.of_fields(self.type_info.row_names, self.values(rest))
        row.set_row_kind(kind)
        return row


def typed_codec(type_info: TypeInformation) -> tuple[int, Encoder, Decoder]:
    """Return tag, payload encoder and payload decoder of a declared key type.

    Raises:
        StateError: The type can't be a key.
    """
    tag = type_tag(type_info)
    if tag is None:
        message = f"{type_info.name} can't be the type of a key."
        raise StateError(message, hint="use a basic type, TUPLE, LIST or ROW")
    if tag in _SCALARS:
        return tag, *_SCALARS[tag]
    composite = _Composite(type_info)
    if tag == TAG_ROW:
        return tag, composite.row_encode, composite.row_decode
    if tag == TAG_TUPLE:
        return tag, composite.tuple_encode, composite.tuple_decode
    return tag, composite.list_encode, composite.values


def _element(tag: int, payload: bytes) -> bytes:
    return _ELEMENT.pack(tag, len(payload)) + payload


def _split(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    position, size = 0, len(data)
    while position < size:
        if size - position < _ELEMENT.size:
            raise _damaged(what="an element is cut off")
        tag, length = _ELEMENT.unpack_from(data, position)
        position += _ELEMENT.size
        if length > size - position or (tag == TAG_NULL and length):
            raise _damaged(what="an element is cut off")
        found.append((tag, data[position : position + length]))
        position += length
    return found


def _row_head(kind: RowKind, names: tuple[str, ...] | None) -> bytes:
    pieces = [struct.pack("<BI", kind.value, 0 if names is None else len(names) + 1)]
    for name in names or ():
        encoded = _text(name)
        pieces.append(struct.pack("<I", len(encoded)) + encoded)
    return b"".join(pieces)


def _split_row_head(data: bytes) -> tuple[RowKind, tuple[str, ...] | None, bytes]:
    try:
        kind, count = struct.unpack_from("<BI", data)
        position, names = 5, []
        for _ in range(count - 1):
            (length,) = struct.unpack_from("<I", data, position)
            position += 4
            names.append(_from_text(_expect(data[position : position + length], length)))
            position += length
        return RowKind(kind), None if count == 0 else tuple(names), data[position:]
    except (struct.error, ValueError) as error:
        raise _damaged(what="a row is cut off") from error


def _auto(key: Any, depth: int) -> tuple[int, bytes]:
    scalar = _AUTO_TAGS.get(type(key))
    if scalar is not None:
        if scalar == TAG_LONG and not -(1 << 63) <= key < 1 << 63:
            return TAG_BIG_INT, _big_int(key)
        if scalar == TAG_TIMESTAMP and key.tzinfo is not None:
            scalar = TAG_ZONED_TIMESTAMP
        return scalar, _SCALARS[scalar][0](key)
    if depth >= _MAX_DEPTH:
        message = f"A key can't be nested deeper than {_MAX_DEPTH} levels."
        raise StateError(message)
    if type(key) is tuple or type(key) is list or is_row(key):
        elements = b"".join(_element(TAG_NULL, b"") if part is None else _element(*_auto(part, depth + 1)) for part in key)
        if is_row(key):
            return TAG_ROW, _row_head(key.get_row_kind(), key.field_names()) + elements
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
        raise _damaged(what="empty")
    return _decode_auto(data[0], data[1:], 0)


def _decode_auto(tag: int, payload: bytes, depth: int) -> Any:
    scalar = _SCALARS.get(tag)
    if scalar is not None:
        return scalar[1](payload)
    if depth >= _MAX_DEPTH:
        raise _damaged(what="nested too deep")
    if tag == TAG_ROW:
        kind, names, payload = _split_row_head(payload)
        row = Row.of_fields(names, _decode_elements(payload, depth))
        row.set_row_kind(kind)
        return row
    if tag == TAG_TUPLE:
        return tuple(_decode_elements(payload, depth))
    if tag == TAG_LIST:
        return _decode_elements(payload, depth)
    if tag == TAG_NULL and not payload:
        return None
    raise _damaged(tag_name(tag))


def _decode_elements(data: bytes, depth: int) -> list[Any]:
    return [None if tag == TAG_NULL else _decode_auto(tag, payload, depth + 1) for tag, payload in _split(data)]
