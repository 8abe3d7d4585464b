"""How values without parts look in msgpack: numbers, texts, times, and what the job has pickled."""

from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal
from typing import Any

from pystate.common.time import Instant
from pystate.common.type_info import TypeKind
from pystate.state.base.value_format import Format, Right

INT64 = (-(1 << 63), (1 << 63) - 1)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a time zone count from a naive epoch
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)
_F32 = struct.Struct("<f")


def big_to_bytes(value: int) -> bytes:
    """Return a whole number as the fewest bytes, two's complement, the highest first."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


class _Plain(Format):
    """Types that msgpack says by itself: STRING, BOOLEAN, CHAR, bytes."""

    def __init__(self, name: str, python_type: type, length: int | None = None) -> None:
        self.name = name
        self.python_type = python_type
        self.length = length
        self.right = Right(python_type) if length is None else None

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
        self.right = Right(int, self.low, self.high)

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
        return value if INT64[0] <= value <= INT64[1] else big_to_bytes(value)

    def from_plain(self, plain: Any) -> Any:
        return int.from_bytes(plain, "big", signed=True) if type(plain) is bytes else self.check(plain)


class _Double(Format):
    name = "DOUBLE"
    right: Right | None = Right(float)

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
    right = None

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
        return (EPOCH + plain * MICROSECOND).time()


class _Timestamp(Format):
    name = "SQL_TIMESTAMP"

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dt.datetime or value.tzinfo is not None:
            raise self.wrong(value, "SQL_TIMESTAMP is a datetime without a time zone")
        return (value - EPOCH) // MICROSECOND

    def from_plain(self, plain: Any) -> Any:
        return EPOCH + plain * MICROSECOND


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


SCALARS: dict[TypeKind, Format] = {
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


def bytes_format(name: str) -> Format:
    """Return the format of bytes under a type's name."""
    return _Plain(name, bytes)
