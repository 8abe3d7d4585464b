"""Vectorized encoding of Arrow arrays as snapshot values, which are msgpack, with the results of `serializers`.

Unsupported values raise `NotInColumnsError`, and are written by the serializers one by one.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array
from pystate.core.state.columns.cells import Cells, NotInColumnsError, Numbers, require
from pystate.core.state.values.serializers import INTEGER_RANGES

NIL = b"\xc0"
_NOTHING = pa.scalar(b"", pa.binary())
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_TEXTS = {1: 0xD9, 2: 0xDA, 4: 0xDB}
_BYTES = {1: 0xC4, 2: 0xC5, 4: 0xC6}
_LISTS = {2: 0xDC, 4: 0xDD}
_POSITIVE = {1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}
_NEGATIVE = {1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}
_SIZES = (1, 2, 4, 8)


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
    return pc.fill_null(_packed(array.filter(present), type_info).take(index), pa.scalar(NIL, pa.binary()))


def joined(*arrays: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenate arrays of bytes row by row."""
    return pc.binary_join_element_wise(*arrays, _NOTHING)


def byte_heads(lengths: Numbers) -> pa.Array:
    """Return the headers of byte strings of these lengths."""
    return _heads(lengths, None, _BYTES)


def list_heads(counts: Numbers) -> pa.Array:
    """Return the headers of lists of these lengths."""
    return _heads(counts, (0x90, 16), _LISTS)


def concatenated(array: pa.Array, counts: Numbers) -> pa.Array:
    """Concatenate byte strings: a given number for each row."""
    cells = Cells.of_array(array)
    places = np.concatenate(([0], np.cumsum(counts)))
    bounds = np.append(cells.starts, cells.ends[-1:] if len(cells) else [0])[places]
    return pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(bounds.astype(np.int32)), array.buffers()[2] or pa.py_buffer(b"")]
    )


def rows_of_bytes(data: Numbers) -> pa.Array:
    """Return the rows of a table of bytes."""
    count, width = data.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))])


def _packed(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    kind, arrow_type = type_info.kind, array.type
    if kind in INTEGER_RANGES:
        require(pa.types.is_signed_integer(arrow_type))
        return _integers(array.cast(pa.int64()).to_numpy(zero_copy_only=False), INTEGER_RANGES[kind])
    if kind is TypeKind.DOUBLE or kind is TypeKind.FLOAT:
        return _doubles(array, short=kind is TypeKind.FLOAT)
    if kind is TypeKind.STRING or kind is TypeKind.CHAR:
        require(pa.types.is_string(arrow_type))
        require(kind is TypeKind.STRING or pc.all(pc.equal(pc.utf8_length(array), 1)).as_py() is not False)
        return joined(_heads(pc.binary_length(array).to_numpy(), (0xA0, 32), _TEXTS), array.cast(pa.binary()))
    if kind is TypeKind.BOOLEAN:
        require(pa.types.is_boolean(arrow_type))
        return rows_of_bytes((array.to_numpy(zero_copy_only=False).astype(np.uint8) + np.uint8(0xC2))[:, None])
    if is_byte_array(type_info):
        require(pa.types.is_binary(arrow_type))
        return joined(byte_heads(pc.binary_length(array).to_numpy()), array)
    if kind is TypeKind.SQL_DATE:
        require(pa.types.is_date32(arrow_type))
        days = array.cast(pa.int32()).to_numpy().astype(np.int64) + _EPOCH_DAY
        return _integers(days, (1, dt.date.max.toordinal()))
    if kind is TypeKind.ROW or kind is TypeKind.TUPLE:
        return _structs(array, type_info)
    if kind in (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY):
        require(pa.types.is_list(arrow_type))
        counts = pc.list_value_length(array).to_numpy()
        return joined(
            list_heads(counts), concatenated(packed_values(array.flatten(), type_info.elements[0], nullable=True), counts)
        )
    raise NotInColumnsError


def _integers(values: Numbers, allowed: tuple[int, int]) -> pa.Array:
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


def _doubles(array: pa.Array, *, short: bool) -> pa.Array:
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


def _structs(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    require(pa.types.is_struct(array.type))
    columns = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
    names = type_info.get_field_names()
    require(len(columns) == array.type.num_fields and set(names) <= set(columns) and bool(names))
    is_row = type_info.kind is TypeKind.ROW
    head = list_heads(np.array([len(names) + is_row]))[0].as_py() + (b"\x00" if is_row else b"")
    parts = [packed_values(columns[name], part, nullable=True) for name, part in zip(names, type_info.elements, strict=True)]
    return joined(pa.scalar(head, pa.binary()), *parts)
