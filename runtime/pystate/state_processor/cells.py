"""Byte strings side by side in one buffer, and what is read of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[Any]

_PADDING = 16
_MAX_BYTES = (1 << 31) - 1


class NotInColumnsError(Exception):
    """Some of these bytes are not of the plain form that columns can read: they have to be looked at one by one."""


class Cells:
    """Parts of a buffer, in its order and without overlap.

    Args:
        data: The buffer, with some bytes to spare at its end, so that a number may be read where one is cut off.
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
        """Return some byte strings as cells."""
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
        """Return how many there are."""
        return len(self.starts)

    @property
    def lengths(self) -> Numbers:
        """The bytes of each."""
        return self.ends - self.starts

    def behind(self, count: int) -> Cells:
        """Return the cells without so many bytes at their beginning; each must have more, or as many."""
        require(bool((self.lengths >= count).all()))
        return Cells(self.data, self.starts + count, self.ends)

    def select(self, rows: Numbers) -> Cells:
        """Return some of the cells, in their order."""
        return Cells(self.data, self.starts[rows], self.ends[rows])

    def to_binary(self) -> pa.Array:
        """Return them as an Arrow array of byte strings."""
        if not len(self):
            return pa.array([], pa.binary())
        # the gaps between cells are values, too, of which every other one is taken
        offsets: Numbers = np.empty(2 * len(self), np.int32)
        offsets[0::2], offsets[1::2] = self.starts, self.ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        array = pa.Array.from_buffers(pa.binary(), 2 * len(self) - 1, buffers)
        return array if len(self) == 1 else array.take(pa.array(np.arange(0, 2 * len(self), 2)))

    def to_text(self) -> pa.Array:
        """Return them as an Arrow array of texts."""
        return as_text(self.to_binary())


def require(right: bool) -> None:
    """Leave the columns where something isn't right.

    Raises:
        NotInColumnsError: So it is.
    """
    if not right:
        raise NotInColumnsError


def as_text(binary: pa.Array) -> pa.Array:
    """Return byte strings as texts.

    Raises:
        NotInColumnsError: They are not all UTF-8, such as lone surrogates.
    """
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotInColumnsError from error


def numbers_at(data: Numbers, starts: Numbers, kind: str) -> Numbers:
    """Return the numbers that begin at some places of a buffer.

    Args:
        data: The buffer.
        starts: The places.
        kind: Of the numbers, as numpy names them with their order of bytes, such as `>u4`.
    """
    dtype = np.dtype(kind)
    # adding in place spares a second array of places: this is the innermost of reading
    places = starts[:, None] + np.arange(dtype.itemsize)
    return data[places].view(dtype)[:, 0]


def spread(array: pa.Array, present: Numbers) -> pa.Array:
    """Return an array with nulls between its values, which are for the rows that are present."""
    index = pa.array(np.cumsum(present) - 1, mask=~present)
    return array.take(index)
