"""Keys by columns: Arrow arrays, and tags and payloads as a type's format has them, one column at a time.

Both ways give what `keys.KeyCodec` gives key by key; what isn't certain to be the same raises `NotInColumnsError`, and is
read or written by the codec.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pystate.common.key_groups import SPARK_HASH_SEED, hash_int
from pystate.common.type_info import TypeInformation
from pystate.core.state.columns import Cells, Numbers, joined, numbers_at, spread
from pystate.core.state.formats.all_formats import known_format
from pystate.core.state.formats.key_bytes import NULL_KEY, TAG_NULL
from pystate.core.state.formats.key_cells import KeyCells, KeyColumn
from pystate.core.state.not_in_columns import NotInColumnsError, require

_LONGEST = 4096
"""Longer keys are hashed one by one."""

_SEEDS = np.array([hash_int(tag, SPARK_HASH_SEED) for tag in range(256)], np.int32).view(np.uint32)


def key_array(cells: Cells, key_type: TypeInformation) -> pa.Array:
    """Return keys as an Arrow array of their column's type; the key None is null.

    Args:
        cells: Tag and payload of each key.
        key_type: The declared type.

    Raises:
        NotInColumnsError: Only the codec can decode them.
    """
    form = known_format(key_type)
    require(bool((cells.lengths > 0).all()))
    tags = cells.data[cells.starts]
    present = tags == form.tag
    if present.all():
        return form.read_keys(KeyCells(cells.after(1)))
    require(bool((present | ((tags == TAG_NULL) & (cells.lengths == 1))).all()))
    return spread(form.read_keys(KeyCells(cells.select(np.flatnonzero(present)).after(1))), present)


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
    form = known_format(key_type)
    tag = pa.scalar(bytes((form.tag or 0,)), pa.binary())
    if not array.null_count:
        return joined(tag, form.write_keys(KeyColumn(array)))
    present = array.is_valid()
    keys = joined(tag, form.write_keys(KeyColumn(array.filter(present))))
    return spread(keys, present.to_numpy(zero_copy_only=False)).fill_null(NULL_KEY)


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
    payloads = cells.after(1)
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
