"""Vectorized encoding of DataFrame columns as entries of a keyed state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.state import StateKind
from pystate.core.state.columns import Numbers, joined, rows_of_bytes
from pystate.core.state.formats.packed_columns import byte_heads, concatenated, list_heads
from pystate.core.state.keys.key_columns import packed_keys
from pystate.core.state.keys.namespaces import VOID_NAMESPACE
from pystate.core.state.kinds.list_parts import part_sub_key
from pystate.core.state.not_in_columns import require
from pystate.core.state.ttl.ttl_serializer import time_mark
from pystate.core.state.values.value_columns import packed_values

_SAME_UNTYPED = frozenset(
    {TypeKind.STRING, TypeKind.BOOLEAN, TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DOUBLE}
)
"""Columns whose values are written alike whether the state declares their type or none."""

Packed = tuple[pa.Array, pa.Array, pa.Array]
"""For each entry: the row that it comes from, its sub-key and its value."""

_VOID = pa.scalar(VOID_NAMESPACE, pa.binary())
_ONE = pa.scalar(b"\x91", pa.binary())


class PackedEntries:
    """Makes the entries of one state.

    Args:
        kind: The kind of the state.
        value_type: The declared type of its values; None for untyped.
        user_key_type: The declared type of its map keys; None for untyped or no map.
        timed: Whether values have a timestamp.
        now: The timestamp of values without one.
    """

    def __init__(
        self,
        kind: StateKind,
        value_type: TypeInformation | None,
        user_key_type: TypeInformation | None,
        *,
        timed: bool,
        now: int,
    ) -> None:
        self._kind = kind
        self._value_type = value_type
        self._user_key_type = user_key_type
        self._timed = timed
        self._now = pa.scalar(time_mark(now), pa.binary())

    def values(self, column: pa.Array, column_type: TypeInformation, times: pa.Array | None) -> Packed:
        """Return the entries of a state with one value per key; a null has none.

        Raises:
            NotInColumnsError: Only the serializers can write or reject them. The other methods raise it, too.
        """
        require(self._kind not in (StateKind.LIST, StateKind.MAP))
        rows = pa.array(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
        values = self._packed(column.take(rows), column_type, None if times is None else times.take(rows))
        return rows, _repeated(b"", len(rows)), values

    def elements(self, column: pa.Array, column_type: TypeInformation, index: pa.Array, times: pa.Array | None) -> Packed:
        """Return the entries of a list with an element per row."""
        require(self._kind is StateKind.LIST and not index.null_count and not column.null_count)
        numbers = index.cast(pa.int64()).to_numpy(zero_copy_only=False)
        require(bool((numbers >= 0).all()))
        places = rows_of_bytes(numbers.astype(">i8").view(np.uint8).reshape(len(numbers), 8))
        return _all_rows(column), joined(_VOID, places), joined(_ONE, _as_bytes(self._packed(column, column_type, times)))

    def map_entries(
        self,
        column: pa.Array,
        column_type: TypeInformation,
        map_keys: pa.Array,
        map_key_type: TypeInformation,
        times: pa.Array | None,
    ) -> Packed:
        """Return the entries of a map with an entry per row."""
        require(self._kind is StateKind.MAP)
        return _all_rows(column), self._user_keys(map_keys, map_key_type), self._packed(column, column_type, times)

    def lists(self, column: pa.Array, column_type: TypeInformation) -> Packed:
        """Return the entries of whole lists."""
        require(self._kind is StateKind.LIST and pa.types.is_list(column.type) and column_type.kind is TypeKind.LIST)
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        rows = pa.array(np.flatnonzero(counts))
        elements = column.take(rows).flatten()
        require(not elements.null_count)
        parts = concatenated(_as_bytes(self._packed(elements, column_type.elements[0], None)), counts[counts > 0])
        return rows, _repeated(part_sub_key(0), len(rows)), joined(list_heads(counts[counts > 0]), parts)

    def maps(self, column: pa.Array, column_type: TypeInformation) -> Packed:
        """Return the entries of whole maps."""
        require(self._kind is StateKind.MAP and pa.types.is_map(column.type) and column_type.kind is TypeKind.MAP)
        present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        maps = column.take(pa.array(present))
        offsets = maps.offsets.to_numpy()
        rows = pa.array(np.repeat(present, np.diff(offsets)))
        start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        key_type, value_type = column_type.elements
        keys, values = maps.keys.slice(start, count), maps.items.slice(start, count)
        return rows, self._user_keys(keys, key_type), self._packed(values, value_type, None)

    def _user_keys(self, keys: pa.Array, column_type: TypeInformation) -> pa.Array:
        key_type = self._user_key_type
        if key_type is None:
            require(column_type.kind is TypeKind.STRING or column_type.kind is TypeKind.LONG)
            key_type = column_type
        return joined(_VOID, packed_keys(keys, key_type))

    def _packed(self, column: pa.Array, column_type: TypeInformation, times: pa.Array | None) -> pa.Array:
        value_type = self._value_type
        if value_type is None:
            require(column_type.kind in _SAME_UNTYPED)
            value_type = column_type
        packed = packed_values(column, value_type, nullable=self._kind is StateKind.MAP)
        if not self._timed:
            return packed
        if times is None:
            return joined(self._now, packed)
        moments = pc.fill_null(times.cast(pa.int64()), int.from_bytes(self._now.as_py(), "big")).to_numpy(
            zero_copy_only=False
        )
        return joined(rows_of_bytes(moments.astype(">i8").view(np.uint8).reshape(len(moments), 8)), packed)


def _as_bytes(packed: pa.Array) -> pa.Array:
    return joined(byte_heads(pc.binary_length(packed).to_numpy(zero_copy_only=False)), packed)


def _all_rows(column: pa.Array) -> pa.Array:
    return pa.array(np.arange(len(column)))


def _repeated(data: bytes, count: int) -> pa.Array:
    width: Numbers = np.frombuffer(data, np.uint8)
    return rows_of_bytes(np.broadcast_to(width, (count, len(data))))
