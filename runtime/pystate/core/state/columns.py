"""Byte strings stored contiguously in one buffer, how columns of them are read and made, and the Arrow types of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array

Numbers = npt.NDArray[Any]

_PADDING = 16
_NOTHING = pa.scalar(b"", pa.binary())
_MAX_BYTES = (1 << 31) - 1


class NotInColumnsError(Exception):
    """Some bytes don't have the plain form for vectorized reads: they have to be decoded one by one."""


class Cells:
    """Parts of a buffer, in order and without overlap.

    Args:
        data: The buffer, with some spare bytes at its end, so that reading a truncated number stays inside.
        starts: Where each part begins.
        ends: Where it ends.
    """

    __slots__ = ("data", "ends", "starts")

    def __init__(self, data: Numbers, starts: Numbers, ends: Numbers) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    @staticmethod
    def of(items: Sequence[bytes]) -> Cells:
        """Return byte strings as cells."""
        joined = b"".join(items)
        if len(joined) > _MAX_BYTES - _PADDING:
            raise NotInColumnsError
        ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items)))
        data = np.frombuffer(joined + bytes(_PADDING), np.uint8)
        return Cells(data, np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(items) else ends, ends)

    @staticmethod
    def of_array(array: pa.Array) -> Cells:
        """Return the values of an Arrow array of byte strings without nulls."""
        _, offset_buffer, data = array.buffers()
        count = len(array)
        offsets = np.frombuffer(offset_buffer, np.int32, count + 1, array.offset * 4).astype(np.int64)
        plain = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return Cells(np.concatenate((plain, np.zeros(_PADDING, np.uint8))), offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.starts)

    @property
    def lengths(self) -> Numbers:
        """The length of each cell."""
        return self.ends - self.starts

    def behind(self, count: int) -> Cells:
        """Return the cells without this many leading bytes; none may be shorter."""
        require(bool((self.lengths >= count).all()))
        return Cells(self.data, self.starts + count, self.ends)

    def select(self, rows: Numbers) -> Cells:
        """Return some of the cells, in order."""
        return Cells(self.data, self.starts[rows], self.ends[rows])

    def to_binary(self) -> pa.Array:
        """Return the cells as an Arrow array of byte strings."""
        if not len(self):
            return pa.array([], pa.binary())
        # the gaps between cells are values, too: every other value is taken
        offsets: Numbers = np.empty(2 * len(self), np.int32)
        offsets[0::2], offsets[1::2] = self.starts, self.ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        array = pa.Array.from_buffers(pa.binary(), 2 * len(self) - 1, buffers)
        return array if len(self) == 1 else array.take(pa.array(np.arange(0, 2 * len(self), 2)))

    def to_text(self) -> pa.Array:
        """Return the cells as an Arrow array of strings."""
        return as_text(self.to_binary())


def require(right: bool) -> None:
    """Check that vectorized reading is possible.

    Raises:
        NotInColumnsError: The condition is false.
    """
    if not right:
        raise NotInColumnsError


def as_text(binary: pa.Array) -> pa.Array:
    """Return byte strings as strings.

    Raises:
        NotInColumnsError: Some aren't UTF-8, e.g. have lone surrogates.
    """
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotInColumnsError from error


def numbers_at(data: Numbers, starts: Numbers, kind: str) -> Numbers:
    """Return the numbers at given offsets of a buffer.

    Args:
        data: The buffer.
        starts: The offsets.
        kind: The numpy type of the numbers with its byte order, such as `>u4`.
    """
    dtype = np.dtype(kind)
    # adding in place saves a second array of offsets: this is the hot path of reading
    places = starts[:, None] + np.arange(dtype.itemsize)
    return data[places].view(dtype)[:, 0]


def spread(array: pa.Array, present: Numbers) -> pa.Array:
    """Return an array with nulls for absent rows; the given values are those of the present rows."""
    index = pa.array(np.cumsum(present) - 1, mask=~present)
    return array.take(index)


def joined(*arrays: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenate arrays of bytes row by row."""
    return pc.binary_join_element_wise(*arrays, _NOTHING)


def rows_of_bytes(data: Numbers) -> pa.Array:
    """Return the rows of a table of bytes."""
    count, width = data.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))])


_SCALARS: dict[TypeKind, pa.DataType] = {
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.SQL_DATE: pa.date32(),
    TypeKind.SQL_TIMESTAMP: pa.timestamp("us"),
    TypeKind.BIG_INT: pa.string(),
    TypeKind.BIG_DEC: pa.string(),
    TypeKind.SQL_TIME: pa.string(),
    TypeKind.INSTANT: pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())]),
    TypeKind.PICKLED_BYTE_ARRAY: pa.binary(),
}


def arrow_type_of(type_info: TypeInformation | None) -> pa.DataType:
    """Return the type of a column of elements of a type; untyped elements are pickled into bytes."""
    if type_info is None or is_byte_array(type_info):
        return pa.binary()
    kind = type_info.kind
    if kind in _SCALARS:
        return _SCALARS[kind]
    parts = [arrow_type_of(part) for part in type_info.elements]
    if kind is TypeKind.ROW or kind is TypeKind.TUPLE:
        return pa.struct([pa.field(name, part) for name, part in zip(type_info.get_field_names(), parts, strict=True)])
    return pa.map_(*parts) if kind is TypeKind.MAP else pa.list_(*parts)
