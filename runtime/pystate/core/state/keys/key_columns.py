"""Keys by columns: Arrow arrays, and the tags and payloads that `key_encoding` describes, one column at a time.

Both ways give what `keys.KeyCodec` gives key by key; what isn't certain to be the same raises `NotInColumnsError`, and is
read or written by the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.key_groups import SPARK_HASH_SEED, hash_int
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_RANGES
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
from pystate.core.state.keys.key_encoding import NULL_KEY, TAG_BINARY, TAG_NULL, type_tag

_LONGEST = 4096
"""Longer keys are hashed one by one."""

_NANS = {"<f4": b"\x00\x00\xc0\x7f", "<f8": b"\x00\x00\x00\x00\x00\x00\xf8\x7f"}
_SEEDS = np.array([hash_int(tag, SPARK_HASH_SEED) for tag in range(256)], np.int32).view(np.uint32)

_DATES = (-719_162, 2_932_896)
"""Days since 1970 of the first and the last date there is."""

Read = Callable[[Cells], pa.Array]


def key_array(cells: Cells, key_type: TypeInformation) -> pa.Array:
    """Return keys as an Arrow array of their column's type; the key None is null.

    Args:
        cells: Tag and payload of each key.
        key_type: The declared type.

    Raises:
        NotInColumnsError: Only the codec can decode them.
    """
    read, tag = _payloads(key_type), type_tag(key_type)
    require(bool((cells.lengths > 0).all()))
    tags = cells.data[cells.starts]
    present = tags == tag
    if present.all():
        return read(cells.behind(1))
    require(bool((present | ((tags == TAG_NULL) & (cells.lengths == 1))).all()))
    return spread(read(cells.select(np.flatnonzero(present)).behind(1)), present)


def _payloads(key_type: TypeInformation) -> Read:
    if type_tag(key_type) == TAG_BINARY:
        return Cells.to_binary
    if key_type.kind in (TypeKind.ROW, TypeKind.TUPLE) or key_type.kind not in _READERS:
        if key_type.kind is TypeKind.TUPLE:
            return _tuple_reader(key_type)
        raise NotInColumnsError
    return _READERS[key_type.kind]


def _integers(low: int, high: int, width: str, arrow_type: pa.DataType) -> Read:
    size = np.dtype(width).itemsize

    def read(cells: Cells) -> pa.Array:
        require(bool((cells.lengths == size).all()))
        values = numbers_at(cells.data, cells.starts, width)
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        array = pa.array(values)
        return array.view(arrow_type) if pa.types.is_temporal(arrow_type) else array.cast(arrow_type)

    return read


def _floats(width: str, arrow_type: pa.DataType) -> Read:
    dtype = np.dtype(width)

    def read(cells: Cells) -> pa.Array:
        require(bool((cells.lengths == dtype.itemsize).all()))
        values = numbers_at(cells.data, cells.starts, width)
        # the codec compares a NaN or a signed zero with its canonical encoding
        require(bool((np.isfinite(values) | np.isinf(values)).all()) and not (np.signbit(values) & (values == 0)).any())
        return pa.array(values, arrow_type)

    return read


def _char(cells: Cells) -> pa.Array:
    texts = cells.to_text()
    require(pc.all(pc.equal(pc.utf8_length(texts), 1)).as_py() is not False)
    return texts


_READERS: dict[TypeKind, Read] = {
    TypeKind.STRING: Cells.to_text,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: _integers(0, 1, "<u4", pa.bool_()),
    TypeKind.BYTE: _integers(*INTEGER_RANGES[TypeKind.BYTE], "<i4", pa.int8()),
    TypeKind.SHORT: _integers(*INTEGER_RANGES[TypeKind.SHORT], "<i4", pa.int16()),
    TypeKind.INT: _integers(*INTEGER_RANGES[TypeKind.INT], "<i4", pa.int32()),
    TypeKind.LONG: _integers(*INTEGER_RANGES[TypeKind.LONG], "<i8", pa.int64()),
    TypeKind.FLOAT: _floats("<f4", pa.float32()),
    TypeKind.DOUBLE: _floats("<f8", pa.float64()),
    TypeKind.SQL_DATE: _integers(*_DATES, "<i4", pa.date32()),
}


def _tuple_reader(key_type: TypeInformation) -> Read:
    parts = [(type_tag(part), _payloads(part)) for part in key_type.elements]
    fields = list(arrow_type_of(key_type))

    def read(cells: Cells) -> pa.Array:
        at = cells.starts
        arrays = []
        for tag, read_part in parts:
            require(bool((at + 5 <= cells.ends).all()))
            tags, starts = cells.data[at], at + 5
            at = starts + numbers_at(cells.data, at + 1, "<u4")
            require(bool((at <= cells.ends).all()) and bool((tags == tag).all()))  # None needs the codec
            arrays.append(read_part(Cells(cells.data, starts, at)))
        require(bool((at == cells.ends).all()))
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read


def are_keys(keys: Sequence[bytes], key_type: TypeInformation) -> bool:
    """Return whether all keys are written as keys of a type are; False may also mean that only the codec can tell."""
    try:
        key_array(Cells.of(keys), key_type)
    except NotInColumnsError:
        return False
    return True


def packed_keys(array: pa.Array, key_type: TypeInformation) -> pa.Array:
    """Return tags and payloads of keys as an Arrow array; null is the key None.

    Raises:
        NotInColumnsError: Only the codec can write or reject them.
    """
    tag = pa.scalar(bytes((type_tag(key_type) or 0,)), pa.binary())
    if not array.null_count:
        return joined(tag, _packed_payloads(array, key_type))
    present = array.is_valid()
    keys = joined(tag, _packed_payloads(array.filter(present), key_type))
    return spread(keys, present.to_numpy(zero_copy_only=False)).fill_null(NULL_KEY)


def _packed_payloads(array: pa.Array, key_type: TypeInformation) -> pa.Array:
    kind, arrow_type = key_type.kind, array.type
    if kind is TypeKind.STRING:
        require(pa.types.is_string(arrow_type))
        return array.cast(pa.binary())
    if type_tag(key_type) == TAG_BINARY:
        require(pa.types.is_binary(arrow_type))
        return array
    if kind in INTEGER_RANGES:
        require(pa.types.is_signed_integer(arrow_type))
        values = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        low, high = INTEGER_RANGES[kind]
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        return _fixed(values.astype("<i8" if kind is TypeKind.LONG else "<i4"))
    if kind is TypeKind.BOOLEAN:
        require(pa.types.is_boolean(arrow_type))
        return _fixed(array.to_numpy(zero_copy_only=False).astype("<i4"))
    if kind is TypeKind.SQL_DATE:
        require(pa.types.is_date32(arrow_type))
        return _fixed(array.cast(pa.int32()).to_numpy(zero_copy_only=False).astype("<i4"))
    if kind is TypeKind.DOUBLE or kind is TypeKind.FLOAT:
        require(pa.types.is_float64(arrow_type) if kind is TypeKind.DOUBLE else pa.types.is_float32(arrow_type))
        width = "<f8" if kind is TypeKind.DOUBLE else "<f4"
        values = array.to_numpy(zero_copy_only=False).astype(width) + np.dtype(width).type(0)  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.frombuffer(_NANS[width], width)[0]
        return _fixed(values)
    raise NotInColumnsError


def _fixed(values: Numbers) -> pa.Array:
    return rows_of_bytes(values.view(np.uint8).reshape(len(values), values.dtype.itemsize))


def key_groups_of(keys: pa.Array, max_parallelism: int) -> Numbers:
    """Return the key groups of keys, like `common.key_groups.key_group`.

    Args:
        keys: Tag and payload of each key.
        max_parallelism: The number of key groups.

    Raises:
        NotInColumnsError: A key is too long.
    """
    cells = Cells.of_array(keys)
    require(not len(cells) or int(cells.lengths.max()) <= _LONGEST)
    hashes = _SEEDS[cells.data[cells.starts]]
    payloads = cells.behind(1)
    lengths = payloads.lengths
    words = lengths >> 2
    with np.errstate(over="ignore"):
        for turn in range(int(words.max()) if len(words) else 0):
            rows = np.flatnonzero(words > turn)
            hashes[rows] = _step(hashes[rows], numbers_at(cells.data, payloads.starts[rows] + 4 * turn, "<u4"))
        tails = payloads.starts + (words << 2)
        for turn in range(3):
            rows = np.flatnonzero((lengths & 3) > turn)
            byte = cells.data[tails[rows] + turn].view(np.int8).astype(np.int32)
            hashes[rows] = _step(hashes[rows], byte.view(np.uint32))
        hashes ^= lengths.astype(np.uint32)
        hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        hashes ^= hashes >> np.uint32(16)
    groups: Numbers = (hashes.view(np.int32) % np.int32(max_parallelism)).astype(np.int32)
    return groups


def _step(hashes: Numbers, words: Numbers) -> Numbers:
    """Mix a word into each hash."""
    mixed = words * np.uint32(0xCC9E2D51)
    mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
    hashes = hashes ^ mixed
    found: Numbers = (hashes << np.uint32(13) | hashes >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    return found
