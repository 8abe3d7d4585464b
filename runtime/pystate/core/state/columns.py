"""Byte strings stored contiguously in one buffer, and how columns of them are read and made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pystate.core.state.not_in_columns import NotInColumnsError, require

Numbers = npt.NDArray[Any]

_PADDING = 16
_NOTHING = pa.scalar(b"", pa.binary())
_MAX_BYTES = (1 << 31) - 1


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

    def after(self, count: int) -> Cells:
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


class Arrays:
    """Makes columns, for formats, which don't load Arrow themselves."""

    __slots__ = ()

    @staticmethod
    def array(values: Any, arrow_type: pa.DataType | None = None) -> pa.Array:
        """Return values as a column."""
        return pa.array(values, arrow_type)

    @staticmethod
    def characters(texts: pa.Array) -> pa.Array:
        """Return texts, which must have one character each."""
        require(pc.all(pc.equal(pc.utf8_length(texts), 1)).as_py() is not False)
        return texts

    @staticmethod
    def struct(arrays: Sequence[pa.Array], arrow_type: pa.DataType, rows: int = 0) -> pa.Array:
        """Return a column of structs, of one of each field; `rows` counts if there is none."""
        if not arrays:
            return pa.array([{}] * rows, pa.struct([]))
        return pa.StructArray.from_arrays(arrays, fields=list(arrow_type))

    @staticmethod
    def lists(counts: Numbers, values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
        """Return a column of lists, of all their elements."""
        return pa.ListArray.from_arrays(_offsets(counts), values).cast(arrow_type)

    @staticmethod
    def maps(counts: Numbers, keys: pa.Array, values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
        """Return a column of maps, of all their entries.

        None may have duplicate keys: a dict keeps the last value of one.
        """
        if len(keys):
            codes = keys.dictionary_encode().indices.to_numpy()
            rows = np.repeat(np.arange(len(counts)), counts)
            require(len(np.unique(rows * (int(codes.max()) + 1) + codes)) == len(codes))
        return pa.MapArray.from_arrays(_offsets(counts), keys, values).cast(arrow_type)


def _offsets(counts: Numbers) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))


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
