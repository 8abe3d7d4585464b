"""Columns of payloads of keys: what formats read keys of columns with, and write them with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pystate.core.state.columns import Arrays, Cells, Numbers, numbers_at, rows_of_bytes
from pystate.core.state.not_in_columns import require

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = 5
"""The bytes before an element of a composite key: a tag, and the length of the payload."""


class KeyCells(Arrays):
    """The payloads of a column of keys.

    Args:
        cells: The bytes of each.
    """

    __slots__ = ("cells",)

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def integers(self, layout: str, low: int, high: int) -> Numbers:
        """Return whole numbers, which must all be in a range.

        Args:
            layout: The numpy type of the numbers with its byte order.
            low: The least.
            high: The highest.
        """
        values = self._numbers(layout)
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        return values

    def floats(self, layout: str) -> Numbers:
        """Return floating-point numbers; see `integers`."""
        values = self._numbers(layout)
        # the codec compares a NaN or a signed zero with its canonical encoding
        require(bool((np.isfinite(values) | np.isinf(values)).all()) and not (np.signbit(values) & (values == 0)).any())
        return values

    def _numbers(self, layout: str) -> Numbers:
        require(bool((self.cells.lengths == np.dtype(layout).itemsize).all()))
        return numbers_at(self.cells.data, self.cells.starts, layout)

    def texts(self) -> pa.Array:
        """Return texts."""
        return self.cells.to_text()

    def binaries(self) -> pa.Array:
        """Return byte strings."""
        return self.cells.to_binary()

    def elements(self, parts: Sequence[tuple[int | None, Callable[[KeyCells], pa.Array]]]) -> list[pa.Array]:
        """Return a column of each part of composite keys, which have all of them; None needs the codec.

        Args:
            parts: The tag of each part, and what reads it.
        """
        data, ends = self.cells.data, self.cells.ends
        at = self.cells.starts
        arrays = []
        for tag, read in parts:
            require(bool((at + _HEAD <= ends).all()))
            tags, starts = data[at], at + _HEAD
            at = starts + numbers_at(data, at + 1, "<u4")
            require(bool((at <= ends).all()) and bool((tags == tag).all()))
            arrays.append(read(KeyCells(Cells(data, starts, at))))
        require(bool((at == ends).all()))
        return arrays


class KeyColumn:
    """A column whose keys become payloads.

    Args:
        array: The column, without nulls.
    """

    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def texts(self) -> pa.Array:
        """Write texts."""
        require(pa.types.is_string(self._array.type))
        return self._array.cast(pa.binary())

    def binaries(self) -> pa.Array:
        """Write byte strings."""
        require(pa.types.is_binary(self._array.type))
        return self._array

    def integers(self, layout: str, low: int, high: int) -> pa.Array:
        """Write whole numbers of a range; see `KeyCells.integers`."""
        require(pa.types.is_signed_integer(self._array.type))
        values = self._array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        return _fixed(values.astype(layout))

    def flags(self, layout: str) -> pa.Array:
        """Write truth values."""
        require(pa.types.is_boolean(self._array.type))
        return _fixed(self._array.to_numpy(zero_copy_only=False).astype(layout))

    def days(self, layout: str) -> pa.Array:
        """Write dates as days since 1970."""
        require(pa.types.is_date32(self._array.type))
        return _fixed(self._array.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(layout))

    def floats(self, layout: str, arrow_type: pa.DataType, nan: bytes) -> pa.Array:
        """Write floating-point numbers of exactly this type of Arrow; all that aren't a number are written as `nan`."""
        require(self._array.type == arrow_type)
        values = self._array.to_numpy(zero_copy_only=False).astype(layout) + np.dtype(layout).type(0)  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.frombuffer(nan, layout)[0]
        return _fixed(values)


def _fixed(values: Numbers) -> pa.Array:
    return rows_of_bytes(values.view(np.uint8).reshape(len(values), values.dtype.itemsize))
