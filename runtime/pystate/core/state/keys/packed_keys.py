"""Vectorized encoding of Arrow arrays as snapshot keys, which are a tag and a payload, and their key groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pystate.common.key_groups import SPARK_HASH_SEED, hash_int
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.state.columns.cells import Cells, NotInColumnsError, Numbers, numbers_at, require, spread
from pystate.core.state.keys.key_encoding import NULL_KEY, TAG_BINARY
from pystate.core.state.keys.keys import type_tag
from pystate.core.state.values.packed_values import joined, rows_of_bytes
from pystate.core.state.values.serializers import INTEGER_RANGES

_LONGEST = 4096
"""Longer keys are hashed one by one."""

_NANS = {"<f4": b"\x00\x00\xc0\x7f", "<f8": b"\x00\x00\x00\x00\x00\x00\xf8\x7f"}
_SEEDS = np.array([hash_int(tag, SPARK_HASH_SEED) for tag in range(256)], np.int32).view(np.uint32)


def packed_keys(array: pa.Array, key_type: TypeInformation) -> pa.Array:
    """Return tags and payloads of keys as an Arrow array; null is the key None.

    Raises:
        NotInColumnsError: Only the codec can write or reject them.
    """
    tag = pa.scalar(bytes((type_tag(key_type) or 0,)), pa.binary())
    if not array.null_count:
        return joined(tag, _payloads(array, key_type))
    present = array.is_valid()
    keys = joined(tag, _payloads(array.filter(present), key_type))
    return spread(keys, present.to_numpy(zero_copy_only=False)).fill_null(NULL_KEY)


def _payloads(array: pa.Array, key_type: TypeInformation) -> pa.Array:
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
