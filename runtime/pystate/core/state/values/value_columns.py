"""Values by columns: Arrow arrays, and msgpack, one column at a time.

A column is read with a cursor per row. Both ways give what `serializers` and the converters of columns (`records.codec`)
give value by value; what isn't certain to be the same raises `NotInColumnsError`, and is read or written by them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_RANGES, is_byte_array
from pystate.core.state.columns import (
    Cells,
    NotInColumnsError,
    Numbers,
    arrow_type_of,
    joined,
    numbers_at,
    require,
    rows_of_bytes,
    spread,
)
from pystate.core.state.formats.scalar_formats import EPOCH, MICROSECOND

_NIL = 0xC0
# the codes of msgpack, by the size of the number that follows
_TEXTS = {1: 0xD9, 2: 0xDA, 4: 0xDB}
_BYTES = {1: 0xC4, 2: 0xC5, 4: 0xC6}
_LISTS = {2: 0xDC, 4: 0xDD}
_POSITIVE = {1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}
_NEGATIVE = {1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}
_SIZES = (1, 2, 4, 8)
_SHORT_TEXT, _SHORT_LIST = (0xA0, 32), (0x90, 16)
"""The code of no bytes or elements, which a short length is added to, and the first length that is too long."""


def _kinds(codes: dict[int, int], letter: str = "u") -> dict[int, str]:
    """Return the numpy types of the numbers that follow the codes."""
    return {code: f">{letter}{size}" for size, code in codes.items()}


_READ_TEXTS, _READ_BYTES, _READ_LISTS = map(_kinds, (_TEXTS, _BYTES, _LISTS))
_READ_INTEGERS = _kinds(_POSITIVE) | _kinds(_NEGATIVE, "i")

_MANY = 256
"""Lists with more elements than these are read one by one: the cursors of all rows go from element to element."""

_EPOCH_DAY = EPOCH.toordinal()
_LAST_DAY = dt.date.max.toordinal()
_FIRST_MOMENT = (dt.datetime.min - EPOCH) // MICROSECOND  # noqa: DTZ901
_LAST_MOMENT = (dt.datetime.max - EPOCH) // MICROSECOND  # noqa: DTZ901
_DAY_MICROSECONDS = 86_400_000_000
_NANOS = 1_000_000_000


class _Cursor:
    """The read position of each row."""

    __slots__ = ("at", "data", "ends")

    def __init__(self, data: Numbers, at: Numbers, ends: Numbers) -> None:
        self.data = data
        self.at = at
        self.ends = ends

    def firsts(self) -> Numbers:
        """Return the byte at the position of each row."""
        require(bool((self.at < self.ends).all()))
        first: Numbers = self.data[self.at]
        return first

    def forward(self, lengths: Numbers | int) -> None:
        """Advance by this many bytes; no row may leave its cell."""
        self.at = self.at + lengths
        require(bool((self.at <= self.ends).all()))


Read = Callable[[_Cursor], pa.Array]


def value_array(cells: Cells, type_info: TypeInformation, *, nullable: bool = False) -> pa.Array:
    """Return values as an Arrow array of their column's type.

    Args:
        cells: The bytes of each value.
        type_info: The type of the values.
        nullable: Whether nil means None.

    Raises:
        NotInColumnsError: Only the serializer can decode them.
    """
    cursor = _Cursor(cells.data, cells.starts, cells.ends)
    read = _reader(type_info)
    array = _with_nulls(cursor, read) if nullable else read(cursor)
    require(bool((cursor.at == cursor.ends).all()))
    return array


def _with_nulls(cursor: _Cursor, read: Read) -> pa.Array:
    present = cursor.firsts() != _NIL
    if present.all():
        return read(cursor)
    rows = np.flatnonzero(present)
    some = _Cursor(cursor.data, cursor.at[rows], cursor.ends[rows])
    array = read(some)
    at = cursor.at + 1
    at[rows] = some.at
    cursor.at = at
    return spread(array, present)


def _reader(type_info: TypeInformation) -> Read:
    kind = type_info.kind
    if kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind]
        arrow_type = arrow_type_of(type_info)
        return lambda cursor: pa.array(_integers(cursor, low, high)).cast(arrow_type)
    if is_byte_array(type_info):
        return lambda cursor: _strings(cursor, None, _READ_BYTES).to_binary()
    if kind in (TypeKind.ROW, TypeKind.TUPLE):
        return _struct_reader(type_info)
    if kind is TypeKind.MAP:
        return _map_reader(type_info)
    if type_info.elements:
        return _list_reader(type_info)
    if kind not in _SCALARS:
        raise NotInColumnsError
    return _SCALARS[kind]


def _integers(cursor: _Cursor, low: int, high: int) -> Numbers:
    """Read 64-bit integers, which must all be in a range."""
    first = cursor.firsts()
    values = first.view(np.int8).astype(np.int64)  # as in the shortest form
    lengths = np.ones(len(first), np.int64)
    known = (first < 0x80) | (first >= 0xE0)
    if not known.all():
        for code, kind in _READ_INTEGERS.items():
            rows = np.flatnonzero(first == code)
            if len(rows):
                found = numbers_at(cursor.data, cursor.at[rows] + 1, kind)
                require(kind != ">u8" or not len(found) or int(found.max()) <= high)
                values[rows] = found.astype(np.int64)
                lengths[rows] += found.dtype.itemsize
                known[rows] = True
        require(bool(known.all()))
    cursor.forward(lengths)
    require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
    return values


def _strings(cursor: _Cursor, short: tuple[int, int] | None, long: dict[int, str]) -> Cells:
    """Read length-prefixed data; the first byte of a short one is a code plus a length below 32, or 16."""
    first = cursor.firsts()
    sizes, heads = _sizes(cursor, first, short, long)
    starts = cursor.at + heads
    cursor.forward(heads + sizes)
    return Cells(cursor.data, starts, cursor.at)


def _sizes(cursor: _Cursor, first: Numbers, short: tuple[int, int] | None, long: dict[int, str]) -> tuple[Numbers, Numbers]:
    """Return the sizes in the headers, and the lengths of the headers."""
    sizes = np.zeros(len(first), np.int64)
    heads = np.ones(len(first), np.int64)
    known = np.zeros(len(first), bool)
    if short is not None:
        code, count = short
        known = (first >= code) & (first < code + count)
        sizes = np.where(known, first.astype(np.int64) - code, 0)
    if not known.all():
        for code, kind in long.items():
            rows = np.flatnonzero(first == code)
            if len(rows):
                found = numbers_at(cursor.data, cursor.at[rows] + 1, kind)
                sizes[rows] = found
                heads[rows] += found.dtype.itemsize
                known[rows] = True
        require(bool(known.all()))
    return sizes, heads


def _counts(cursor: _Cursor) -> Numbers:
    """Read the headers of lists; return the number of elements of each."""
    counts, heads = _sizes(cursor, cursor.firsts(), _SHORT_LIST, _READ_LISTS)
    cursor.forward(heads)
    return counts


def _text(cursor: _Cursor) -> pa.Array:
    return _strings(cursor, _SHORT_TEXT, _READ_TEXTS).to_text()


def _char(cursor: _Cursor) -> pa.Array:
    texts = _text(cursor)
    require(bool(pc.all(pc.equal(pc.utf8_length(texts), 1)).as_py() is not False))
    return texts


def _boolean(cursor: _Cursor) -> pa.Array:
    first = cursor.firsts()
    require(bool(((first == 0xC2) | (first == 0xC3)).all()))
    cursor.forward(1)
    return pa.array(first == 0xC3)


def _doubles(cursor: _Cursor) -> Numbers:
    require(bool((cursor.firsts() == 0xCB).all()))
    values = numbers_at(cursor.data, cursor.at + 1, ">f8").astype(np.float64)
    cursor.forward(9)
    return values


def _float(cursor: _Cursor) -> pa.Array:
    values = _doubles(cursor)
    with np.errstate(over="ignore", invalid="ignore"):
        short = values.astype(np.float32)
    require(bool((np.isfinite(short) == np.isfinite(values)).all()))
    return pa.array(short)


def _decimal(cursor: _Cursor) -> pa.Array:
    try:
        numbers = [Decimal(text) for text in _text(cursor).to_pylist()]
    except ArithmeticError as error:
        raise NotInColumnsError from error
    require(all(number.is_finite() for number in numbers))
    return pa.array(map(str, numbers), pa.string())


def _date(cursor: _Cursor) -> pa.Array:
    days = _integers(cursor, 1, _LAST_DAY)
    return pa.array((days - _EPOCH_DAY).astype(np.int32)).view(pa.date32())


def _time(cursor: _Cursor) -> pa.Array:
    moments = _integers(cursor, 0, _DAY_MICROSECONDS - 1).tolist()
    return pa.array(((EPOCH + moment * MICROSECOND).time().isoformat() for moment in moments), pa.string())


def _instant(cursor: _Cursor) -> pa.Array:
    require(bool((cursor.firsts() == 0x92).all()))
    cursor.forward(1)
    seconds = pa.array(_integers(cursor, *INTEGER_RANGES[TypeKind.LONG]))
    nanos = pa.array(_integers(cursor, 0, _NANOS - 1).astype(np.int32))
    return pa.StructArray.from_arrays([seconds, nanos], ["seconds", "nanos"])


_SCALARS: dict[TypeKind, Read] = {
    TypeKind.STRING: _text,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: _boolean,
    TypeKind.FLOAT: _float,
    TypeKind.DOUBLE: lambda cursor: pa.array(_doubles(cursor)),
    TypeKind.BIG_INT: lambda cursor: pa.array(_integers(cursor, *INTEGER_RANGES[TypeKind.LONG])).cast(pa.string()),
    TypeKind.BIG_DEC: _decimal,
    TypeKind.SQL_DATE: _date,
    TypeKind.SQL_TIME: _time,
    TypeKind.SQL_TIMESTAMP: lambda cursor: pa.array(_integers(cursor, _FIRST_MOMENT, _LAST_MOMENT)).view(pa.timestamp("us")),
    TypeKind.INSTANT: _instant,
}


def _struct_reader(type_info: TypeInformation) -> Read:
    parts = [_reader(part) for part in type_info.elements]
    is_row = type_info.kind is TypeKind.ROW
    fields = list(arrow_type_of(type_info))
    size = len(parts) + is_row

    def read(cursor: _Cursor) -> pa.Array:
        require(bool((_counts(cursor) == size).all()))
        if is_row:  # a column can't represent another kind than INSERT
            require(bool((cursor.firsts() == 0).all()))
            cursor.forward(1)
        rows = len(cursor.at)
        arrays = [_with_nulls(cursor, part) for part in parts]
        return pa.StructArray.from_arrays(arrays, fields=fields) if parts else pa.array([{}] * rows, pa.struct([]))

    return read


def _list_reader(type_info: TypeInformation) -> Read:
    element = _reader(type_info.elements[0])
    arrow_type = arrow_type_of(type_info)

    def read(cursor: _Cursor) -> pa.Array:
        counts = _counts(cursor)
        (values,) = _elements(cursor, counts, [lambda some: _with_nulls(some, element)], [arrow_type.value_type])
        return pa.ListArray.from_arrays(_offsets(counts), values).cast(arrow_type)

    return read


def _map_reader(type_info: TypeInformation) -> Read:
    key, value = map(_reader, type_info.elements)
    arrow_type = arrow_type_of(type_info)

    def read(cursor: _Cursor) -> pa.Array:
        counts = _counts(cursor)
        require(not (counts % 2).any())
        readers: list[Read] = [key, lambda some: _with_nulls(some, value)]
        keys, values = _elements(cursor, counts // 2, readers, [arrow_type.key_type, arrow_type.item_type])
        if type_info.elements[0].kind not in _DISTINCT or _repeats(keys, counts // 2):
            raise NotInColumnsError  # a dict keeps the last value of a duplicate key
        return pa.MapArray.from_arrays(_offsets(counts // 2), keys, values).cast(arrow_type)

    return read


_DISTINCT = frozenset({*INTEGER_RANGES, TypeKind.STRING, TypeKind.CHAR, TypeKind.BOOLEAN, TypeKind.SQL_DATE})
"""Map keys that are equal in Python where they are in Arrow."""


def _repeats(keys: pa.Array, counts: Numbers) -> bool:
    """Return whether a map has duplicate keys."""
    if not len(keys):
        return False
    codes = keys.dictionary_encode().indices.to_numpy()
    rows = np.repeat(np.arange(len(counts)), counts)
    return len(np.unique(rows * (int(codes.max()) + 1) + codes)) < len(codes)


def _elements(cursor: _Cursor, counts: Numbers, readers: list[Read], types: list[pa.DataType]) -> list[pa.Array]:
    """Read the elements of all lists, one per row at a time; return them row by row, for each reader."""
    most = int(counts.max()) if len(counts) else 0
    require(most <= _MANY)
    found: list[list[pa.Array]] = [[] for _ in readers]
    of_rows = []
    at = cursor.at.copy()
    for turn in range(most):
        rows = np.flatnonzero(counts > turn)
        some = _Cursor(cursor.data, at[rows], cursor.ends[rows])
        for read, arrays in zip(readers, found, strict=True):
            arrays.append(read(some))
        at[rows] = some.at
        of_rows.append(rows)
    cursor.at = at
    if not of_rows:
        return [pa.array([], arrow_type) for arrow_type in types]
    order = pa.array(np.argsort(np.concatenate(of_rows), kind="stable"))
    return [pa.concat_arrays(arrays).take(order) for arrays in found]


def _offsets(counts: Numbers) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))


def packed_values(array: pa.Array, type_info: TypeInformation, *, nullable: bool = False) -> pa.Array:
    """Return encoded values as an Arrow array.

    Args:
        array: The column.
        type_info: The type of the values.
        nullable: Whether there may be nulls, which are written as nil.

    Raises:
        NotInColumnsError: Only the serializer can write or reject them.
    """
    if not array.null_count:
        return _packed(array, type_info)
    require(nullable)
    present = array.is_valid()
    index = pc.if_else(present, pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1), None)
    return pc.fill_null(_packed(array.filter(present), type_info).take(index), pa.scalar(bytes((_NIL,)), pa.binary()))


def byte_heads(lengths: Numbers) -> pa.Array:
    """Return the headers of byte strings of these lengths."""
    return _heads(lengths, None, _BYTES)


def list_heads(counts: Numbers) -> pa.Array:
    """Return the headers of lists of these lengths."""
    return _heads(counts, _SHORT_LIST, _LISTS)


def concatenated(array: pa.Array, counts: Numbers) -> pa.Array:
    """Concatenate byte strings: a given number for each row."""
    cells = Cells.of_array(array)
    places = np.concatenate(([0], np.cumsum(counts)))
    bounds = np.append(cells.starts, cells.ends[-1:] if len(cells) else [0])[places]
    return pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(bounds.astype(np.int32)), array.buffers()[2] or pa.py_buffer(b"")]
    )


def _packed(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    kind, arrow_type = type_info.kind, array.type
    if kind in INTEGER_RANGES:
        require(pa.types.is_signed_integer(arrow_type))
        return _packed_integers(array.cast(pa.int64()).to_numpy(zero_copy_only=False), INTEGER_RANGES[kind])
    if kind is TypeKind.DOUBLE or kind is TypeKind.FLOAT:
        return _packed_doubles(array, short=kind is TypeKind.FLOAT)
    if kind is TypeKind.STRING or kind is TypeKind.CHAR:
        require(pa.types.is_string(arrow_type))
        require(kind is TypeKind.STRING or pc.all(pc.equal(pc.utf8_length(array), 1)).as_py() is not False)
        return joined(_heads(pc.binary_length(array).to_numpy(), _SHORT_TEXT, _TEXTS), array.cast(pa.binary()))
    if kind is TypeKind.BOOLEAN:
        require(pa.types.is_boolean(arrow_type))
        return rows_of_bytes((array.to_numpy(zero_copy_only=False).astype(np.uint8) + np.uint8(0xC2))[:, None])
    if is_byte_array(type_info):
        require(pa.types.is_binary(arrow_type))
        return joined(byte_heads(pc.binary_length(array).to_numpy()), array)
    if kind is TypeKind.SQL_DATE:
        require(pa.types.is_date32(arrow_type))
        days = array.cast(pa.int32()).to_numpy().astype(np.int64) + _EPOCH_DAY
        return _packed_integers(days, (1, _LAST_DAY))
    if kind is TypeKind.ROW or kind is TypeKind.TUPLE:
        return _packed_structs(array, type_info)
    if kind in (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY):
        require(pa.types.is_list(arrow_type))
        counts = pc.list_value_length(array).to_numpy()
        return joined(
            list_heads(counts), concatenated(packed_values(array.flatten(), type_info.elements[0], nullable=True), counts)
        )
    raise NotInColumnsError


def _packed_integers(values: Numbers, allowed: tuple[int, int]) -> pa.Array:
    low, high = allowed
    require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
    sizes = np.zeros(len(values), np.int64)
    codes = values.astype(np.uint8)  # the shortest form is the number itself
    for negative, known, limits in (
        (False, _POSITIVE, (128, 1 << 8, 1 << 16, 1 << 32)),
        (True, _NEGATIVE, (32, 1 << 7, 1 << 15, 1 << 31)),
    ):
        for size, limit in zip(_SIZES, limits, strict=True):
            rows = values < -limit if negative else values >= limit
            sizes[rows], codes[rows] = size, known[size]
    return _with_codes(codes, sizes, values.astype(">i8"))


def _heads(numbers: Numbers, short: tuple[int, int] | None, codes: dict[int, int]) -> pa.Array:
    """Return lengths encoded as headers."""
    numbers = numbers.astype(np.int64)
    first, least = (0, 0) if short is None else short
    sizes = np.zeros(len(numbers), np.int64)
    firsts = (numbers + first).astype(np.uint8)
    limit = least
    for size, code in codes.items():
        rows = numbers >= limit
        sizes[rows], firsts[rows] = size, code
        limit = 1 << 8 * size
    return _with_codes(firsts, sizes, numbers.astype(">i8"))


def _with_codes(codes: Numbers, sizes: Numbers, numbers: Numbers) -> pa.Array:
    """Return a code and the given number of last bytes of a number, for each row."""
    ends = np.cumsum(sizes + 1)
    starts = ends - sizes - 1
    data: Numbers = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    data[starts] = codes
    digits = numbers.view(np.uint8).reshape(len(numbers), 8)
    for size in _SIZES:
        rows = np.flatnonzero(sizes == size)
        if len(rows):
            data[starts[rows][:, None] + np.arange(1, size + 1)] = digits[rows, 8 - size :]
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _packed_doubles(array: pa.Array, *, short: bool) -> pa.Array:
    require(pa.types.is_float32(array.type) or pa.types.is_float64(array.type))
    values = array.to_numpy(zero_copy_only=False).astype(np.float64)
    if short:
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        require(bool((np.isfinite(rounded) == np.isfinite(values)).all()))
        values = rounded
    data: Numbers = np.empty((len(values), 9), np.uint8)
    data[:, 0] = 0xCB
    data[:, 1:] = values.astype(">f8").view(np.uint8).reshape(len(values), 8)
    return rows_of_bytes(data)


def _packed_structs(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    require(pa.types.is_struct(array.type))
    columns = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
    names = type_info.get_field_names()
    require(len(columns) == array.type.num_fields and set(names) <= set(columns) and bool(names))
    is_row = type_info.kind is TypeKind.ROW
    head = list_heads(np.array([len(names) + is_row]))[0].as_py() + (b"\x00" if is_row else b"")
    parts = [packed_values(columns[name], part, nullable=True) for name, part in zip(names, type_info.elements, strict=True)]
    return joined(pa.scalar(head, pa.binary()), *parts)
