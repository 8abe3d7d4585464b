"""How values of each type look in msgpack.

A `Format` turns a value into plain data that msgpack says exactly, checking it on the way, and back. Typed values carry no
type marks (the type stands once in the serializer snapshot); untyped values use the extension codes below. Nothing is ever
written as a neighbour of what it is: a subclass, a set, a bytearray is an error, not a list or bytes.
"""

from __future__ import annotations

import datetime as dt
import pickle
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgpack

from pystate.common.errors import StateError
from pystate.common.row import Row, RowKind
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind

# Extension codes of untyped values stand in snapshots: never renumber, never reuse.
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

_INT64 = (-(1 << 63), (1 << 63) - 1)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a time zone count from a naive epoch
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_F32 = struct.Struct("<f")


class _Packers(threading.local):
    """A packer per thread: making one costs more than using it, and one can't be shared."""

    def __init__(self) -> None:
        self.pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass").pack


_packers = _Packers()


def pack(plain: Any) -> bytes:
    """Return msgpack bytes of plain data."""
    return _packers.pack(plain)


def unpack(data: bytes) -> Any:
    """Return the plain data; extensions come back as what they stand for. Raises ValueError on damage."""
    return msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogatepass", ext_hook=_from_extension)


def unpack_plain(data: bytes) -> Any:
    """As `unpack`, several times as quick, for types in which there are neither extensions nor map keys but text.

    What isn't of such a type comes back as something that is none of its values, too, or raises ValueError.
    """
    try:
        return msgpack.unpackb(data)
    except UnicodeDecodeError:  # lone surrogates, which take a slower way
        return unpack(data)


class Format(ABC):
    """The form of one type's values.

    Attributes:
        name: The type's name.
        has_extensions: Whether its bytes may hold msgpack extensions or maps.
    """

    name: str
    has_extensions: bool = False

    def check(self, value: Any) -> Any:
        """Return the value as a state keeps it; of mutable values only the outside is looked at.

        Raises:
            StateError: The value isn't of the type.
        """
        self.to_plain(value)
        return value

    @abstractmethod
    def to_plain(self, value: Any) -> Any:
        """Return plain data for msgpack; raises StateError where the value, or something in it, isn't of the type."""

    @abstractmethod
    def from_plain(self, plain: Any) -> Any:
        """Return the value; raises StateError, ValueError or TypeError where the data is none of this type."""

    def to_bytes(self, value: Any) -> bytes:
        """Return the value's bytes."""
        return pack(self.to_plain(value))

    def wrong(self, value: Any, hint: str | None = None) -> StateError:
        """Return the error for a value of another type."""
        return StateError(f"{self.shown(value)} is not of type {self.name}.", hint=hint)

    @staticmethod
    def shown(value: Any) -> str:
        """Return a short text for a value and its Python type."""
        text = repr(value)
        return f"{text if len(text) <= 80 else f'{text[:77]}...'} ({type(value).__qualname__})"


class _Plain(Format):
    """Types that msgpack says by itself: STRING, BOOLEAN, CHAR, bytes."""

    def __init__(self, name: str, python_type: type, length: int | None = None) -> None:
        self.name = name
        self.python_type = python_type
        self.length = length

    def to_plain(self, value: Any) -> Any:
        if type(value) is not self.python_type or (self.length is not None and len(value) != self.length):  # type: ignore[arg-type]
            raise self.wrong(value)
        return value

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _Integer(Format):
    def __init__(self, name: str, bits: int) -> None:
        self.name = name
        self.low, self.high = -(1 << bits - 1), (1 << bits - 1) - 1

    def to_plain(self, value: Any) -> Any:
        if type(value) is not int:
            raise self.wrong(value)
        if not self.low <= value <= self.high:
            raise self.wrong(value, f"{self.name} goes from {self.low} to {self.high}; use a wider type")
        return value

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _BigInt(Format):
    name = "BIG_INT"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not int:
            raise self.wrong(value)
        return value if _INT64[0] <= value <= _INT64[1] else _big_to_bytes(value)

    def from_plain(self, plain: Any) -> Any:
        return int.from_bytes(plain, "big", signed=True) if type(plain) is bytes else self.check(plain)


class _Double(Format):
    name = "DOUBLE"

    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    def to_plain(self, value: Any) -> Any:
        if type(value) is float:
            return value
        if type(value) is not int:
            raise self.wrong(value)
        try:
            return float(value)
        except OverflowError:
            raise self.wrong(value) from None

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _Float(_Double):
    name = "FLOAT"

    def to_plain(self, value: Any) -> Any:
        try:
            return _F32.unpack(_F32.pack(super().to_plain(value)))[0]
        except OverflowError:
            raise self.wrong(value, "FLOAT has 32 bits; use DOUBLE") from None

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _Decimal(Format):
    name = "BIG_DEC"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not Decimal or not value.is_finite():
            raise self.wrong(value)
        return str(value)

    def from_plain(self, plain: Any) -> Any:
        value = Decimal(plain)
        self.to_plain(value)
        return value


class _Date(Format):
    name = "SQL_DATE"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dt.date:
            raise self.wrong(value)
        return value.toordinal()

    def from_plain(self, plain: Any) -> Any:
        return dt.date.fromordinal(plain)


class _Time(Format):
    name = "SQL_TIME"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dt.time or value.tzinfo is not None:
            raise self.wrong(value)
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond

    def from_plain(self, plain: Any) -> Any:
        if not 0 <= plain < 86_400_000_000:
            raise self.wrong(plain)
        return (_EPOCH + plain * _MICROSECOND).time()


class _Timestamp(Format):
    name = "SQL_TIMESTAMP"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dt.datetime or value.tzinfo is not None:
            raise self.wrong(value, "SQL_TIMESTAMP is a datetime without a time zone")
        return (value - _EPOCH) // _MICROSECOND

    def from_plain(self, plain: Any) -> Any:
        return _EPOCH + plain * _MICROSECOND


class _Instant(Format):
    name = "INSTANT"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not Instant:
            raise self.wrong(value)
        return [value.seconds, value.nanos]

    def from_plain(self, plain: Any) -> Any:
        seconds, nanos = plain
        return Instant(seconds, nanos)


class _Pickled(Format):
    name = "PICKLED_BYTE_ARRAY"

    def check(self, value: Any) -> Any:
        return value

    def to_plain(self, value: Any) -> Any:
        try:
            return pickle.dumps(value, protocol=4)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise self.wrong(value, f"pickle says: {error}") from error

    def from_plain(self, plain: Any) -> Any:
        return pickle.loads(plain)  # noqa: S301 - the job asked for pickle by this type


class _Composite(Format):
    def __init__(self, type_info: TypeInformation) -> None:
        self.name = type_info.name
        self.parts = [format_for(part) for part in type_info.elements]


class _List(_Composite):
    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._element = self.parts[0]
        self._nullable = type_info.kind is not TypeKind.PRIMITIVE_ARRAY
        self._all_right = _list_check(self._element)

    def check(self, value: Any) -> Any:
        if type(value) is not list:
            raise self.wrong(value)
        return value

    def to_plain(self, value: Any) -> Any:
        if type(value) is not list:
            raise self.wrong(value)
        if self._all_right(value):
            return value
        to_plain = self._element.to_plain
        if self._nullable:
            return [None if item is None else to_plain(item) for item in value]
        return [to_plain(item) for item in value]

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list:
            raise self.wrong(plain)
        if self._all_right(plain):
            return plain
        from_plain = self._element.from_plain
        return [None if item is None else from_plain(item) for item in plain]


class _Right(NamedTuple):
    """What makes a value right as it is, so that nobody needs to convert it: its exact type and, of an int, its range."""

    python_type: type
    low: int = 0
    high: int = -1


def _right(part: Format) -> _Right | None:
    """Return when a value of a format is right as it is; None where the format must look."""
    if isinstance(part, _Integer):
        return _Right(int, part.low, part.high)
    if type(part) is _Double:
        return _Right(float)
    return _Right(part.python_type) if isinstance(part, _Plain) and part.length is None else None


def _list_check(element: Format) -> Callable[[list[Any]], bool]:
    """Return what says quickly whether all elements of a list are right as they are."""
    right = _right(element)
    if right is None:
        return lambda values: not values
    exact, low, high = right

    def all_integers(values: list[Any]) -> bool:
        for value in values:
            if type(value) is not int or value > high or value < low:
                return False
        return True

    def all_exact(values: list[Any]) -> bool:
        for value in values:  # noqa: SIM110 - all(...) takes twice as long
            if type(value) is not exact:
                return False
        return True

    return all_integers if exact is int else all_exact


def _fields_check(parts: list[Format]) -> Callable[[Sequence[Any]], bool]:
    """Return what says quickly whether fields, as many as the parts, are all right as they are."""
    rights = [(index, *right) for index, right in enumerate(map(_right, parts)) if right is not None]
    if len(rights) != len(parts):
        return lambda values: False

    def all_right(values: Sequence[Any]) -> bool:
        for index, exact, low, high in rights:  # a zip takes twice as long for the few fields there are
            value = values[index]
            if type(value) is not exact or (exact is int and not low <= value <= high):  # type: ignore[operator]
                return False
        return True

    return all_right


class _Map(_Composite):
    """A flat list of keys and values, so that keys can be of any type."""

    def check(self, value: Any) -> Any:
        if type(value) is not dict:
            raise self.wrong(value)
        return value

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dict:
            raise self.wrong(value)
        key_to_plain, value_to_plain = self.parts[0].to_plain, self.parts[1].to_plain
        plain: list[Any] = []
        for key, item in value.items():
            plain.append(key_to_plain(key))
            plain.append(None if item is None else value_to_plain(item))
        return plain

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list or len(plain) % 2:
            raise self.wrong(plain)
        key_from_plain, value_from_plain = self.parts[0].from_plain, self.parts[1].from_plain
        pairs = zip(plain[::2], plain[1::2], strict=True)
        return {key_from_plain(key): None if item is None else value_from_plain(item) for key, item in pairs}


class _Tuple(_Composite):
    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._deep = is_immutable(type_info)
        self._all_right = _fields_check(self.parts)

    def check(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            raise self.wrong(value)
        if not self._deep or self._all_right(value):
            return value
        return tuple(None if item is None else part.check(item) for part, item in zip(self.parts, value, strict=True))

    def to_plain(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            raise self.wrong(value)
        if self._all_right(value):
            return value  # msgpack writes tuples as it writes lists
        return [None if item is None else part.to_plain(item) for part, item in zip(self.parts, value, strict=True)]

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is list and len(plain) == len(self.parts) and self._all_right(plain):
            return tuple(plain)
        return tuple(None if item is None else part.from_plain(item) for part, item in zip(self.parts, plain, strict=True))


class _Row(_Composite):
    """The kind's number, then the values in the type's order. A row without names takes those of the type."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._names = type_info.names
        self._all_right = _fields_check(self.parts)
        for name, part in zip(type_info.names or (), self.parts, strict=False):
            self._check_default(part, name, type_info.defaults.get(name))

    def _check_default(self, part: Format, name: str, default: Any) -> None:
        try:
            if default is not None:
                part.to_plain(default)
        except StateError as error:
            message = f"The default of field {name!r} of {self.name} is wrong: {error.message}"
            raise StateError(message, hint=error.hint) from error

    def check(self, value: Any) -> Any:
        if type(value) is not Row or len(value) != len(self.parts):
            raise self.wrong(value)
        names = value.field_names()
        if names is not None and names != self._names and (self._names is None or set(names) != set(self._names)):
            raise self.wrong(value, "declare the row's field names with Types.ROW_NAMED")
        return value

    def to_plain(self, value: Any) -> Any:
        self.check(value)
        names, values = value.field_names(), value.values_list()
        if names is not None and self._names is not None and names != self._names:
            values = [value[name] for name in self._names]
        plain: list[Any] = [value.get_row_kind().value]
        if self._all_right(values):
            plain += values
            return plain
        plain.extend(None if item is None else part.to_plain(item) for part, item in zip(self.parts, values, strict=True))
        return plain

    def from_plain(self, plain: Any) -> Any:
        kind, *values = plain
        if len(values) != len(self.parts) or not self._all_right(values):
            values = [None if item is None else part.from_plain(item) for part, item in zip(self.parts, values, strict=True)]
        row = Row.of_fields(self._names, values)
        row.set_row_kind(RowKind(kind))
        return row


_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes})


class _AutoFormat(Format):
    """Untyped values: each as what it is, with extensions for what msgpack doesn't have."""

    name = "untyped"
    has_extensions = True

    def check(self, value: Any) -> Any:
        kind = type(value)
        if kind not in _PLAIN_TYPES and kind is not list and kind is not dict and kind not in _EXTENSIONS:
            raise self._unsayable(value)
        return value

    def to_plain(self, value: Any) -> Any:
        return self._plain(value, 0, quick=False)

    def to_bytes(self, value: Any) -> bytes:
        try:
            return pack(self._plain(value, 0, quick=True))
        except OverflowError:  # an int beyond 64 bits: the quick way doesn't look at each number
            return pack(self._plain(value, 0, quick=False))

    def from_plain(self, plain: Any) -> Any:
        return plain

    def _unsayable(self, value: Any) -> StateError:
        return self.wrong(value, "give the state a type, as Types.PICKLED_BYTE_ARRAY(), or keep a list, dict, tuple or Row")

    def _plain(self, value: Any, depth: int, quick: bool) -> Any:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            if kind is int and not _INT64[0] <= value <= _INT64[1]:
                return msgpack.ExtType(EXT_BIG_INT, _big_to_bytes(value))
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
        if kind is Row:
            names = value.field_names()
            values = [self._plain(item, depth + 1, quick) for item in value]
            return msgpack.ExtType(
                EXT_ROW, pack([value.get_row_kind().value, None if names is None else list(names), values])
            )
        if kind is dt.datetime and value.tzinfo is not None:
            if value.tzinfo is not dt.timezone.utc:
                raise self.wrong(value, "only datetime.timezone.utc can be kept exactly; convert it with astimezone")
            return msgpack.ExtType(EXT_UTC_TIMESTAMP, pack((value - _EPOCH_UTC) // _MICROSECOND))
        extension = _EXTENSIONS.get(kind)
        if extension is None:
            raise self._unsayable(value)
        code, form = extension
        return msgpack.ExtType(code, pack(form.to_plain(value)))


def _big_to_bytes(value: int) -> bytes:
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


_AUTO = _AutoFormat()
_EXTENSIONS: dict[type, tuple[int, Format]] = {
    tuple: (EXT_TUPLE, _AUTO),
    Row: (EXT_ROW, _AUTO),
    Decimal: (EXT_DECIMAL, _Decimal()),
    dt.date: (EXT_DATE, _Date()),
    dt.time: (EXT_TIME, _Time()),
    dt.datetime: (EXT_TIMESTAMP, _Timestamp()),
    Instant: (EXT_INSTANT, _Instant()),
}
_FORMAT_OF_CODE = {code: form for code, form in _EXTENSIONS.values() if form is not _AUTO}


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
        return _EPOCH_UTC + plain * _MICROSECOND
    if code in _FORMAT_OF_CODE:
        return _FORMAT_OF_CODE[code].from_plain(plain)
    message = f"unknown msgpack extension {code}"
    raise ValueError(message)


_SCALARS: dict[TypeKind, Format] = {
    TypeKind.STRING: _Plain("STRING", str),
    TypeKind.BOOLEAN: _Plain("BOOLEAN", bool),
    TypeKind.CHAR: _Plain("CHAR", str, 1),
    TypeKind.BYTE: _Integer("BYTE", 8),
    TypeKind.SHORT: _Integer("SHORT", 16),
    TypeKind.INT: _Integer("INT", 32),
    TypeKind.LONG: _Integer("LONG", 64),
    TypeKind.FLOAT: _Float(),
    TypeKind.DOUBLE: _Double(),
    TypeKind.BIG_INT: _BigInt(),
    TypeKind.BIG_DEC: _Decimal(),
    TypeKind.SQL_DATE: _Date(),
    TypeKind.SQL_TIME: _Time(),
    TypeKind.SQL_TIMESTAMP: _Timestamp(),
    TypeKind.INSTANT: _Instant(),
    TypeKind.PICKLED_BYTE_ARRAY: _Pickled(),
}


def is_immutable(type_info: TypeInformation) -> bool:
    """Return whether values of a type can't be changed in place."""
    if type_info.kind is TypeKind.TUPLE:
        return all(map(is_immutable, type_info.elements))
    return _is_bytes(type_info) or (type_info.kind in _SCALARS and type_info.kind is not TypeKind.PICKLED_BYTE_ARRAY)


def _is_bytes(type_info: TypeInformation) -> bool:
    return type_info.kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE


def format_for(type_info: TypeInformation | None) -> Format:
    """Return the format of a type; None is the untyped value."""
    if type_info is None:
        return _AUTO
    scalar = _SCALARS.get(type_info.kind)
    if scalar is not None:
        return scalar
    if _is_bytes(type_info):
        return _Plain(type_info.name, bytes)
    if type_info.kind is TypeKind.TUPLE:
        return _Tuple(type_info)
    if type_info.kind is TypeKind.ROW:
        return _Row(type_info)
    if type_info.kind is TypeKind.MAP:
        return _Map(type_info)
    return _List(type_info)
