"""The formats of numbers and truth values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.common.type_info import TypeKind
from pystate.common.type_rules import INTEGER_RANGES
from pystate.core.state.formats.key_bytes import (
    TAG_BIG_DEC,
    TAG_BIG_INT,
    TAG_BOOLEAN,
    TAG_BYTE,
    TAG_DOUBLE,
    TAG_FLOAT,
    TAG_INT,
    TAG_LONG,
    TAG_SHORT,
    damaged_key,
    expect,
)
from pystate.core.state.formats.scalar_format import Scalar
from pystate.core.state.formats.type_format import Right
from pystate.core.state.not_in_columns import NotInColumnsError, require

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.key_cells import KeyCells, KeyColumn
    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn

INT64 = INTEGER_RANGES[TypeKind.LONG]
_NONE = type(None)


def big_to_bytes(value: int) -> bytes:
    """Return an integer as the minimum number of bytes, two's complement, big-endian."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


class Boolean(Scalar):
    """Truth values."""

    kind = TypeKind.BOOLEAN
    right = Right(bool)
    exact_type = direct_type = bool
    tag = TAG_BOOLEAN
    arrow_alias = "bool"
    distinct = True

    @override
    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return value if type(value) is bool else self.conformed(value)

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not bool:
            value = self.right_key(value)
        return b"\x01\x00\x00\x00" if value else b"\x00\x00\x00\x00"

    @override
    def decode_key(self, data: bytes) -> bool:
        number = int.from_bytes(expect(data, 4), "little")
        if number > 1:
            raise damaged_key(what="a BOOLEAN that is neither 0 nor 1")
        return number == 1

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.flags())

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.flags()

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.array(cells.integers("<u4", 0, 1)).cast(self.arrow_type)

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.flags("<i4")


class Integer(Scalar):
    """Whole numbers of a range."""

    direct_type = int
    distinct = True
    carried = frozenset({int, _NONE})

    def __init__(self, kind: TypeKind, tag: int, arrow_alias: str, key_bytes: int = 4) -> None:
        self.kind = kind
        super().__init__()
        self.low, self.high = INTEGER_RANGES[kind]
        self.right = Right(int, self.low, self.high)
        self.tag = tag
        self.arrow_alias = arrow_alias
        self._key_layout = f"<i{key_bytes}"
        # not methods, which would read the range of each key: a fifth of the time of small keys
        self.encode_key, self.decode_key = _integer_keys(self, key_bytes)  # type: ignore[assignment, method-assign]

    @override
    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    @override
    def to_plain(self, value: Any) -> Any:
        if type(value) is int and self.low <= value <= self.high:
            return value
        return self.conformed(value)

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.integers(self.low, self.high)).cast(self.arrow_type)

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.integers(self.low, self.high)

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.array(cells.integers(self._key_layout, self.low, self.high)).cast(self.arrow_type)

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.integers(self._key_layout, self.low, self.high)


def _integer_keys(form: Integer, size: int) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    low, high, right_key = form.low, form.high, form.right_key

    def encode_key(value: Any) -> bytes:
        if type(value) is not int or not low <= value <= high:
            value = right_key(value)
        data: bytes = value.to_bytes(size, "little", signed=True)
        return data

    def decode_key(data: bytes) -> int:
        value = int.from_bytes(expect(data, size), "little", signed=True)
        if not low <= value <= high:
            raise damaged_key(what=f"a {form.name} out of its range")
        return value

    return encode_key, decode_key


class BigInt(Scalar):
    """Whole numbers of any size: a number in 64 bits, bytes beyond."""

    kind = TypeKind.BIG_INT
    exact_type = int
    tag = TAG_BIG_INT
    arrow_alias = "string"
    converted = sized = True

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is int else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        number = self.check(value)
        return number if INT64[0] <= number <= INT64[1] else big_to_bytes(number)

    @override
    def from_plain(self, plain: Any) -> Any:
        return int.from_bytes(plain, "big", signed=True) if type(plain) is bytes else self.check(plain)

    @override
    def encode_key(self, value: Any) -> bytes:
        return big_to_bytes(value if type(value) is int else self.right_key(value))

    @override
    def decode_key(self, data: bytes) -> int:
        return int.from_bytes(data, "big", signed=True)

    @override
    def to_column(self, value: Any) -> str:
        return str(self.rule(value))

    @override
    def from_column(self, value: str) -> int:
        return int(value)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.integers(*INT64)).cast(self.arrow_type)


class Double(Scalar):
    """Floating-point numbers of 64 bits."""

    kind = TypeKind.DOUBLE
    right: Right | None = Right(float)
    exact_type: type | None = float
    direct_type: type | None = float
    tag = TAG_DOUBLE
    arrow_alias = "double"
    carried = frozenset({float, int, _NONE})
    overflowing = frozenset({int})
    layout = struct.Struct("<d")
    nan = b"\x00\x00\x00\x00\x00\x00\xf8\x7f"

    def __init__(self) -> None:
        super().__init__()
        self.encode_key, self.decode_key = _floating_keys(self)  # type: ignore[assignment, method-assign]

    @override
    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return value if type(value) is float else self.conformed(value)

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.doubles())

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.doubles(short=False)

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.array(cells.floats("<f8"))

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.floats("<f8", self.arrow_type, self.nan)


def _floating_keys(form: Double) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    layout, size, nan = form.layout, form.layout.size, form.nan

    def encode_key(value: Any) -> bytes:
        if type(value) is not float and type(value) is not int:
            value = form.right_key(value)
        try:
            number = float(value)
            return nan if math.isnan(number) else layout.pack(number + 0.0)  # -0.0 + 0.0 is 0.0
        except OverflowError:
            raise form.wrong_key(value) from None

    def decode_key(data: bytes) -> float:
        return float(layout.unpack(expect(data, size))[0])

    return encode_key, decode_key


class Float(Double):
    """Floating-point numbers of 32 bits, which are written as those of 64 bits."""

    kind = TypeKind.FLOAT
    right = exact_type = direct_type = None
    tag = TAG_FLOAT
    arrow_alias = "float"
    overflowing = frozenset({float, int})
    layout = struct.Struct("<f")
    nan = b"\x00\x00\xc0\x7f"

    @override
    def to_plain(self, value: Any) -> Any:
        return self.conformed(value)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.array(cells.floats())

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.doubles(short=True)

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.array(cells.floats("<f4"))

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.floats("<f4", self.arrow_type, self.nan)


class BigDecimal(Scalar):
    """Decimal numbers, written as text."""

    kind = TypeKind.BIG_DEC
    tag = TAG_BIG_DEC
    arrow_alias = "string"
    converted = sized = True

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is Decimal and value.is_finite() else self.conformed(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return str(self.check(value))

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.check(Decimal(plain))

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not Decimal or not value.is_finite():
            value = self.right_key(value)
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits)).lstrip("0")
        short = text.rstrip("0")
        if not short:
            return b"0E0"
        return f"{'-' if sign else ''}{short}E{int(exponent) + len(text) - len(short)}".encode()

    @override
    def decode_key(self, data: bytes) -> Decimal:
        try:
            return Decimal(data.decode("ascii"))
        except (ArithmeticError, ValueError) as error:
            raise damaged_key(what="not a decimal number") from error

    @override
    def to_column(self, value: Any) -> str:
        return str(self.rule(value))

    @override
    def from_column(self, value: Any) -> Decimal:
        return value if isinstance(value, Decimal) else Decimal(value)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        try:
            numbers = [Decimal(text) for text in cells.texts().to_pylist()]
        except ArithmeticError as error:
            raise NotInColumnsError from error
        require(all(number.is_finite() for number in numbers))
        return cells.array(map(str, numbers), self.arrow_type)


NUMBERS: tuple[Scalar, ...] = (
    Boolean(),
    Integer(TypeKind.BYTE, TAG_BYTE, "int8"),
    Integer(TypeKind.SHORT, TAG_SHORT, "int16"),
    Integer(TypeKind.INT, TAG_INT, "int32"),
    Integer(TypeKind.LONG, TAG_LONG, "int64", key_bytes=8),
    Float(),
    Double(),
    BigInt(),
    BigDecimal(),
)
