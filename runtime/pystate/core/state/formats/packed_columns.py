"""Columns of msgpack: what formats read values of columns with, and write them with.

A column is read with a position in each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.core.state.columns import Arrays, Cells, Numbers, joined, numbers_at, rows_of_bytes, spread
from pystate.core.state.not_in_columns import require

_NIL, _FALSE, _TRUE, _DOUBLE = 0xC0, 0xC2, 0xC3, 0xCB
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


class PackedCells(Arrays):
    """The read position in each cell of a column."""

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

    def read_all(self, read: Read, *, nullable: bool) -> pa.Array:
        """Return what each cell has; nothing may follow it.

        Args:
            read: Reads one value of each.
            nullable: Whether nil means None.
        """
        array = self.nullable(read) if nullable else read(self)
        require(bool((self.at == self.ends).all()))
        return array

    def nullable(self, read: Read) -> pa.Array:
        """Read a value or nil of each."""
        present = self.firsts() != _NIL
        if present.all():
            return read(self)
        rows = np.flatnonzero(present)
        some = PackedCells(self.data, self.at[rows], self.ends[rows])
        array = read(some)
        at = self.at + 1
        at[rows] = some.at
        self.at = at
        return spread(array, present)

    def expect(self, byte: int) -> None:
        """Read a byte, which must be this one."""
        require(bool((self.firsts() == byte).all()))
        self.forward(1)

    def integers(self, low: int, high: int) -> Numbers:
        """Read 64-bit integers, which must all be in a range."""
        first = self.firsts()
        values = first.view(np.int8).astype(np.int64)  # as in the shortest form
        lengths = np.ones(len(first), np.int64)
        known = (first < 0x80) | (first >= 0xE0)
        if not known.all():
            for code, kind in _READ_INTEGERS.items():
                rows = np.flatnonzero(first == code)
                if len(rows):
                    found = numbers_at(self.data, self.at[rows] + 1, kind)
                    require(kind != ">u8" or not len(found) or int(found.max()) <= high)
                    values[rows] = found.astype(np.int64)
                    lengths[rows] += found.dtype.itemsize
                    known[rows] = True
            require(bool(known.all()))
        self.forward(lengths)
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        return values

    def flags(self) -> Numbers:
        """Read truth values."""
        first = self.firsts()
        require(bool(((first == _FALSE) | (first == _TRUE)).all()))
        self.forward(1)
        flags: Numbers = first == _TRUE
        return flags

    def doubles(self) -> Numbers:
        """Read floating-point numbers of 64 bits."""
        require(bool((self.firsts() == _DOUBLE).all()))
        values = numbers_at(self.data, self.at + 1, ">f8").astype(np.float64)
        self.forward(9)
        return values

    def floats(self) -> Numbers:
        """Read floating-point numbers that must be in the range of 32 bits."""
        values = self.doubles()
        with np.errstate(over="ignore", invalid="ignore"):
            short = values.astype(np.float32)
        require(bool((np.isfinite(short) == np.isfinite(values)).all()))
        return short

    def texts(self) -> pa.Array:
        """Read texts."""
        return self._strings(_SHORT_TEXT, _READ_TEXTS).to_text()

    def binaries(self) -> pa.Array:
        """Read byte strings."""
        return self._strings(None, _READ_BYTES).to_binary()

    def counts(self) -> Numbers:
        """Read the headers of lists; return the number of elements of each."""
        counts, heads = self._sizes(self.firsts(), _SHORT_LIST, _READ_LISTS)
        self.forward(heads)
        return counts

    def elements(self, counts: Numbers, reads: Sequence[Read], types: Sequence[pa.DataType]) -> list[pa.Array]:
        """Read the elements of all lists, one per row at a time; return them row by row, for each of `reads`."""
        most = int(counts.max()) if len(counts) else 0
        require(most <= _MANY)
        found: list[list[pa.Array]] = [[] for _ in reads]
        of_rows = []
        at = self.at.copy()
        for turn in range(most):
            rows = np.flatnonzero(counts > turn)
            some = PackedCells(self.data, at[rows], self.ends[rows])
            for read, arrays in zip(reads, found, strict=True):
                arrays.append(read(some))
            at[rows] = some.at
            of_rows.append(rows)
        self.at = at
        if not of_rows:
            return [pa.array([], arrow_type) for arrow_type in types]
        order = pa.array(np.argsort(np.concatenate(of_rows), kind="stable"))
        return [pa.concat_arrays(arrays).take(order) for arrays in found]

    def _strings(self, short: tuple[int, int] | None, long: dict[int, str]) -> Cells:
        """Read length-prefixed data; the first byte of a short one is a code plus a length below 32, or 16."""
        first = self.firsts()
        sizes, heads = self._sizes(first, short, long)
        starts = self.at + heads
        self.forward(heads + sizes)
        return Cells(self.data, starts, self.at)

    def _sizes(self, first: Numbers, short: tuple[int, int] | None, long: dict[int, str]) -> tuple[Numbers, Numbers]:
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
                    found = numbers_at(self.data, self.at[rows] + 1, kind)
                    sizes[rows] = found
                    heads[rows] += found.dtype.itemsize
                    known[rows] = True
            require(bool(known.all()))
        return sizes, heads


Read = Callable[[PackedCells], pa.Array]


class ValueColumn:
    """A column whose values become bytes.

    Args:
        array: The column, without nulls.
    """

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def nullable(self, write: Write) -> pa.Array:
        """Return the bytes of each value; a null becomes nil."""
        array = self.array
        if not array.null_count:
            return write(self)
        present = array.is_valid()
        index = pc.if_else(present, pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1), None)
        return pc.fill_null(write(ValueColumn(array.filter(present))).take(index), pa.scalar(bytes((_NIL,)), pa.binary()))

    def integers(self, low: int, high: int) -> pa.Array:
        """Write whole numbers of a range."""
        require(pa.types.is_signed_integer(self.array.type))
        return _packed_integers(self.array.cast(pa.int64()).to_numpy(zero_copy_only=False), low, high)

    def days(self, epoch: int, last: int) -> pa.Array:
        """Write dates as the numbers of their days, of which 1970-01-01 has the number `epoch`."""
        require(pa.types.is_date32(self.array.type))
        return _packed_integers(self.array.cast(pa.int32()).to_numpy().astype(np.int64) + epoch, 1, last)

    def flags(self) -> pa.Array:
        """Write truth values."""
        require(pa.types.is_boolean(self.array.type))
        return rows_of_bytes((self.array.to_numpy(zero_copy_only=False).astype(np.uint8) + np.uint8(_FALSE))[:, None])

    def doubles(self, *, short: bool) -> pa.Array:
        """Write floating-point numbers of 64 bits; `short` ones are rounded to 32 bits, whose range they must be in."""
        array = self.array
        require(pa.types.is_float32(array.type) or pa.types.is_float64(array.type))
        values = array.to_numpy(zero_copy_only=False).astype(np.float64)
        if short:
            with np.errstate(over="ignore"):
                rounded = values.astype(np.float32).astype(np.float64)
            require(bool((np.isfinite(rounded) == np.isfinite(values)).all()))
            values = rounded
        data: Numbers = np.empty((len(values), 9), np.uint8)
        data[:, 0] = _DOUBLE
        data[:, 1:] = values.astype(">f8").view(np.uint8).reshape(len(values), 8)
        return rows_of_bytes(data)

    def texts(self) -> pa.Array:
        """Write texts."""
        require(pa.types.is_string(self.array.type))
        return joined(_heads(pc.binary_length(self.array).to_numpy(), _SHORT_TEXT, _TEXTS), self.array.cast(pa.binary()))

    def characters(self) -> pa.Array:
        """Write texts of one character each."""
        texts = self.texts()
        Arrays.characters(self.array)
        return texts

    def binaries(self) -> pa.Array:
        """Write byte strings."""
        require(pa.types.is_binary(self.array.type))
        return joined(byte_heads(pc.binary_length(self.array).to_numpy()), self.array)

    def structs(self, names: Sequence[str], writes: Sequence[Write], first: bytes) -> pa.Array:
        """Write the fields of these names as lists that begin with the packed values of `first`, one byte each."""
        array = self.array
        require(pa.types.is_struct(array.type))
        columns = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        require(len(columns) == array.type.num_fields and set(names) <= set(columns) and bool(names))
        head = list_heads(np.array([len(names) + len(first)]))[0].as_py() + first
        parts = [ValueColumn(columns[name]).nullable(write) for name, write in zip(names, writes, strict=True)]
        return joined(pa.scalar(head, pa.binary()), *parts)

    def lists(self, write: Write) -> pa.Array:
        """Write lists, whose elements may be null."""
        require(pa.types.is_list(self.array.type))
        counts = pc.list_value_length(self.array).to_numpy()
        return joined(list_heads(counts), concatenated(ValueColumn(self.array.flatten()).nullable(write), counts))


Write = Callable[[ValueColumn], pa.Array]


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


def _packed_integers(values: Numbers, low: int, high: int) -> pa.Array:
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
