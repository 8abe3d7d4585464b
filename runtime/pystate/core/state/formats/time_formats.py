"""The formats of dates, times and instants."""

from __future__ import annotations

import datetime as dt
import struct
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.common.time import Instant
from pystate.common.type_info import TypeKind
from pystate.common.type_rules import INTEGER_RANGES
from pystate.core.state.formats.key_bytes import (
    TAG_DATE,
    TAG_INSTANT,
    TAG_TIME,
    TAG_TIMESTAMP,
    damaged_key,
    expect,
    wrong_key,
)
from pystate.core.state.formats.scalar_format import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.key_cells import KeyCells, KeyColumn
    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a time zone count from a naive epoch
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)

_EPOCH_DAY = EPOCH.toordinal()
_LAST_DAY = dt.date.max.toordinal()
_FIRST_MOMENT = (dt.datetime.min - EPOCH) // MICROSECOND  # noqa: DTZ901
_LAST_MOMENT = (dt.datetime.max - EPOCH) // MICROSECOND  # noqa: DTZ901
_DAY_MICROSECONDS = 86_400_000_000
_NANOS = 1_000_000_000
_INSTANT = struct.Struct("<qI")
_NONE = type(None)


class Date(Scalar):
    """Dates: the number of the day, from 0001-01-01 for values and from 1970-01-01 for keys."""

    kind = TypeKind.SQL_DATE
    exact_type = dt.date
    tag = TAG_DATE
    arrow_alias = "date32"
    distinct = True
    carried = frozenset({dt.date, _NONE})

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.date else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return self.check(value).toordinal()

    @override
    def from_plain(self, plain: Any) -> Any:
        return dt.date.fromordinal(plain)

    @override
    def encode_key(self, value: Any) -> bytes:
        date: dt.date = value if type(value) is dt.date else self.right_key(value)
        return (date.toordinal() - _EPOCH_DAY).to_bytes(4, "little", signed=True)

    @override
    def decode_key(self, data: bytes) -> dt.date:
        try:
            return dt.date.fromordinal(int.from_bytes(expect(data, 4), "little", signed=True) + _EPOCH_DAY)
        except (ValueError, OverflowError) as error:
            raise damaged_key(what="a date out of its range") from error

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array((cells.integers(1, _LAST_DAY) - _EPOCH_DAY).astype("i4")).view(self.arrow_type)

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.days(_EPOCH_DAY, _LAST_DAY)

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.array(cells.integers("<i4", 1 - _EPOCH_DAY, _LAST_DAY - _EPOCH_DAY)).view(self.arrow_type)

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.days("<i4")


class Time(Scalar):
    """Times of a day: the microseconds since midnight."""

    kind = TypeKind.SQL_TIME
    tag = TAG_TIME
    arrow_alias = "string"
    converted = sized = True

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.time and value.tzinfo is None else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return _since_midnight(self.check(value))

    @override
    def from_plain(self, plain: Any) -> Any:
        if not 0 <= plain < _DAY_MICROSECONDS:
            raise self.wrong(plain)
        return (EPOCH + plain * MICROSECOND).time()

    @override
    def encode_key(self, value: Any) -> bytes:
        time: dt.time = value if type(value) is dt.time and value.tzinfo is None else self.right_key(value)
        return _since_midnight(time).to_bytes(8, "little", signed=True)

    @override
    def decode_key(self, data: bytes) -> dt.time:
        micros = int.from_bytes(expect(data, 8), "little", signed=True)
        if not 0 <= micros < _DAY_MICROSECONDS:
            raise damaged_key(what="a time out of its range")
        return (EPOCH + micros * MICROSECOND).time()

    @override
    def to_column(self, value: Any) -> str:
        text: str = self.rule(value).isoformat()
        return text

    @override
    def from_column(self, value: str) -> dt.time:
        return dt.time.fromisoformat(value)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        moments = cells.integers(0, _DAY_MICROSECONDS - 1).tolist()
        return cells.array(((EPOCH + moment * MICROSECOND).time().isoformat() for moment in moments), self.arrow_type)


def _since_midnight(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


class Timestamp(Scalar):
    """Timestamps without a time zone: the microseconds since 1970."""

    kind = TypeKind.SQL_TIMESTAMP
    tag = TAG_TIMESTAMP
    arrow_alias = "timestamp[us]"
    carried = frozenset({dt.datetime, _NONE})

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is dt.datetime and value.tzinfo is None else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return (self.check(value) - EPOCH) // MICROSECOND

    @override
    def from_plain(self, plain: Any) -> Any:
        return EPOCH + plain * MICROSECOND

    @override
    def encode_key(self, value: Any) -> bytes:
        is_right = type(value) is dt.datetime and value.tzinfo is None
        at: dt.datetime = value if is_right else self.right_key(value)
        return ((at - EPOCH) // MICROSECOND).to_bytes(8, "little", signed=True)

    @override
    def decode_key(self, data: bytes) -> dt.datetime:
        return _moment_after(EPOCH, data)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.integers(_FIRST_MOMENT, _LAST_MOMENT)).view(self.arrow_type)


def encode_zoned_key(value: Any) -> bytes:
    """Return the payload of an untyped key with a time zone."""
    if type(value) is not dt.datetime or value.utcoffset() is None:
        raise wrong_key(value, "datetime with a time zone")
    return ((value - EPOCH_UTC) // MICROSECOND).to_bytes(8, "little", signed=True)


def decode_zoned_key(data: bytes) -> dt.datetime:
    """Return the untyped key with a time zone, in UTC, of a payload."""
    return _moment_after(EPOCH_UTC, data)


def _moment_after(epoch: dt.datetime, data: bytes) -> dt.datetime:
    try:
        return epoch + int.from_bytes(expect(data, 8), "little", signed=True) * MICROSECOND
    except OverflowError as error:
        raise damaged_key(what="a timestamp out of its range") from error


class InstantFormat(Scalar):
    """Instants: seconds since 1970 and nanoseconds."""

    kind = TypeKind.INSTANT
    tag = TAG_INSTANT
    converted = True

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is Instant else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        instant = self.check(value)
        return [instant.seconds, instant.nanos]

    @override
    def from_plain(self, plain: Any) -> Any:
        seconds, nanos = plain
        return Instant(seconds, nanos)

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not Instant or not -(1 << 63) <= value.seconds < 1 << 63:
            raise self.wrong_key(value)  # nothing else becomes one
        return _INSTANT.pack(value.seconds, value.nanos)

    @override
    def decode_key(self, data: bytes) -> Instant:
        seconds, nanos = _INSTANT.unpack(expect(data, _INSTANT.size))
        if nanos >= _NANOS:
            raise damaged_key(what="an instant out of its range")
        return Instant(seconds, nanos)

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa  # noqa: PLC0415 - the command line has no Arrow

        return pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])

    @override
    def to_column(self, value: Any) -> dict[str, int]:
        instant = value if type(value) is Instant else self.rule(value)
        return {"seconds": instant.seconds, "nanos": instant.nanos}

    @override
    def from_column(self, value: dict[str, int]) -> Instant:
        return Instant(**value)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        cells.expect(0x92)  # a list of two
        seconds = cells.array(cells.integers(*INTEGER_RANGES[TypeKind.LONG]))
        nanos = cells.array(cells.integers(0, _NANOS - 1).astype("i4"))
        return cells.struct([seconds, nanos], self.arrow_type)


TIMES: tuple[Scalar, ...] = (Date(), Time(), Timestamp(), InstantFormat())
