"""The msgpack formats of scalar values: numbers, texts, times, and pickled values."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pystate.common.errors import UnknownClassError, UserFunctionError
from pystate.common.time import Instant
from pystate.common.type_info import TypeKind
from pystate.common.type_rules import INTEGER_RANGES, SCALAR_RULES, Conform, WrongValueError, as_bytes
from pystate.common.user_code.program_classes import why_not_kept
from pystate.core.state.formats.type_format import Format, Right

INT64 = (-(1 << 63), (1 << 63) - 1)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a time zone count from a naive epoch
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)


def big_to_bytes(value: int) -> bytes:
    """Return an integer as the minimum number of bytes, two's complement, big-endian."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


class _Scalar(Format):
    """The base of scalar formats: values of the exact type are accepted first; others are converted or rejected."""

    def __init__(self, name: str, rule: Conform) -> None:
        self.name = name
        self._rule = rule

    def conformed(self, value: Any) -> Any:
        try:
            return self._rule(value)
        except WrongValueError as error:
            raise self.wrong(value, error.why) from None


class _Plain(_Scalar):
    """Types with a direct msgpack representation: STRING, BOOLEAN, CHAR, bytes."""

    def __init__(self, name: str, python_type: type, rule: Conform, length: int | None = None) -> None:
        super().__init__(name, rule)
        self.python_type = python_type
        self.length = length
        self.right = Right(python_type) if length is None else None

    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    def to_plain(self, value: Any) -> Any:
        if type(value) is not self.python_type or (self.length is not None and len(value) != self.length):  # type: ignore[arg-type]
            return self.conformed(value)
        return value

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _Integer(_Scalar):
    def __init__(self, kind: TypeKind) -> None:
        super().__init__(kind.value, SCALAR_RULES[kind])
        self.low, self.high = INTEGER_RANGES[kind]
        self.right = Right(int, self.low, self.high)

    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    def to_plain(self, value: Any) -> Any:
        if type(value) is int and self.low <= value <= self.high:
            return value
        return self.conformed(value)

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _BigInt(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is int else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        number = self.check(value)
        return number if INT64[0] <= number <= INT64[1] else big_to_bytes(number)

    def from_plain(self, plain: Any) -> Any:
        return int.from_bytes(plain, "big", signed=True) if type(plain) is bytes else self.check(plain)


class _Double(_Scalar):
    right: Right | None = Right(float)

    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    def to_plain(self, value: Any) -> Any:
        return value if type(value) is float else self.conformed(value)

    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)


class _Float(_Double):
    right = None

    def to_plain(self, value: Any) -> Any:
        return self.conformed(value)


class _Decimal(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is Decimal and value.is_finite() else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        return str(self.check(value))

    def from_plain(self, plain: Any) -> Any:
        return self.check(Decimal(plain))


class _Date(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.date else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        return self.check(value).toordinal()

    def from_plain(self, plain: Any) -> Any:
        return dt.date.fromordinal(plain)


class _Time(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.time and value.tzinfo is None else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        time = self.check(value)
        return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond

    def from_plain(self, plain: Any) -> Any:
        if not 0 <= plain < 86_400_000_000:
            raise self.wrong(plain)
        return (EPOCH + plain * MICROSECOND).time()


class _Timestamp(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.datetime and value.tzinfo is None else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        return (self.check(value) - EPOCH) // MICROSECOND

    def from_plain(self, plain: Any) -> Any:
        return EPOCH + plain * MICROSECOND


class _Instant(_Scalar):
    def check(self, value: Any) -> Any:
        return value if type(value) is Instant else self.conformed(value)

    def to_plain(self, value: Any) -> Any:
        instant = self.check(value)
        return [instant.seconds, instant.nanos]

    def from_plain(self, plain: Any) -> Any:
        seconds, nanos = plain
        return Instant(seconds, nanos)


_STOPS = "its class raises StopIteration where it is pickled or read: next() needs a default there"


class _Pickled(Format):
    name = "PICKLED_BYTE_ARRAY"

    def check(self, value: Any) -> Any:
        return value

    def to_plain(self, value: Any) -> Any:
        try:
            return pickle.dumps(value, protocol=4)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise self.wrong(value, why_not_kept(error)) from error
        except StopIteration as error:  # map() over many values would end at it, and lose the rest
            raise self.wrong(value, _STOPS) from error

    def from_plain(self, plain: Any) -> Any:
        try:
            return pickle.loads(plain)  # noqa: S301 - the job asked for pickle by this type
        except UserFunctionError as error:  # see `ProgramClasses`
            raise UnknownClassError(error.message, hint=error.hint) from error
        except (AttributeError, ImportError) as error:
            message = f"A pickled object can't be read: {error}."
            hint = "its class is gone: the program's file has it no more, or the module of the class isn't there"
            raise UnknownClassError(message, hint=hint) from error
        except StopIteration as error:
            message = "A pickled object can't be read: its class raised StopIteration."
            raise UnknownClassError(message, hint=_STOPS) from error


def _scalar(made: Callable[..., Format], kind: TypeKind, *arguments: Any) -> Format:
    return made(kind.value, *arguments, SCALAR_RULES[kind])


SCALARS: dict[TypeKind, Format] = {
    TypeKind.STRING: _scalar(_Plain, TypeKind.STRING, str),
    TypeKind.BOOLEAN: _scalar(_Plain, TypeKind.BOOLEAN, bool),
    TypeKind.CHAR: _Plain("CHAR", str, SCALAR_RULES[TypeKind.CHAR], 1),
    **{kind: _Integer(kind) for kind in INTEGER_RANGES},
    TypeKind.FLOAT: _scalar(_Float, TypeKind.FLOAT),
    TypeKind.DOUBLE: _scalar(_Double, TypeKind.DOUBLE),
    TypeKind.BIG_INT: _scalar(_BigInt, TypeKind.BIG_INT),
    TypeKind.BIG_DEC: _scalar(_Decimal, TypeKind.BIG_DEC),
    TypeKind.SQL_DATE: _scalar(_Date, TypeKind.SQL_DATE),
    TypeKind.SQL_TIME: _scalar(_Time, TypeKind.SQL_TIME),
    TypeKind.SQL_TIMESTAMP: _scalar(_Timestamp, TypeKind.SQL_TIMESTAMP),
    TypeKind.INSTANT: _scalar(_Instant, TypeKind.INSTANT),
    TypeKind.PICKLED_BYTE_ARRAY: _Pickled(),
}


def bytes_format(name: str) -> Format:
    """Return the format of bytes under a type's name."""
    return _Plain(name, bytes, lambda value: as_bytes(value, name))
