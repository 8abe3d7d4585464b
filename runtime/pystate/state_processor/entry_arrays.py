"""Converts entries of a keyed state to Arrow batches, column by column, with the columns of `columns.keyed_columns`.

Entries of many key groups are collected, and each column is made from all their bytes at once (`key_columns`,
`value_columns`). A column that can't be made this way is made element by element, by the decoder of the state's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateKind
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter
from pystate.core.snapshot.reading.state_rows import PartDecoders, RowDecoder
from pystate.core.state.base.timer_schema import time_from_bytes
from pystate.core.state.columns import Cells, Numbers, numbers_at
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.addresses import KEYED_BY_MORE
from pystate.core.state.keys.key_columns import key_array
from pystate.core.state.keys.namespaces import VOID_NAMESPACE, KeyNamespaceSerializer, split_namespace
from pystate.core.state.kinds.list_parts import unpack_part
from pystate.core.state.not_in_columns import NotInColumnsError, require
from pystate.core.state.ttl.ttl_serializer import TIME_BYTES, without_time
from pystate.core.state.values.value_columns import value_array
from pystate.state_processor.frame_columns import (
    KEY,
    MAP_KEY,
    NAMESPACE,
    RAW_SCHEMA,
    VALUE,
    column_array,
    is_gathered,
    keyed_columns,
    parts_of,
    schema_of,
)

_ENTRIES = 16_384
_BLOCKS = 16
"""A batch ends at this number of entries or of blocks, whichever is reached first."""

_WINDOW_BYTES = 16
_SIGN = np.uint64(1 << 63)


def batches_of_entries(
    reader: CanonicalReader,
    state: str,
    decoders: PartDecoders,
    groups: Iterable[int],
    wanted: KeyFilter | None,
    *,
    per_entry: bool,
    where: str,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of some key groups of a file; blocks of other key groups aren't read.

    Args:
        reader: The reader of the file.
        state: The name of the state.
        decoders: The decoders of the state.
        groups: The key groups.
        wanted: The keys; None for all.
        per_entry: Whether each element of a list and each entry of a map is a row.
        where: The place, for errors.

    Raises:
        CorruptSnapshotError, RestoreError: An entry can't be read.
        SnapshotError: Arrow can't represent a value.
    """
    parts = [(part, EntryArrays(decoders.of(part), decoders.common, per_entry, where)) for part in reader.parts(state)]
    last: EntryArrays | None = None
    for group in groups:
        keys = None if wanted is None else wanted.by_group.get(group, frozenset())
        for part, arrays in parts:
            for block in reader.blocks(part, group):
                if last is not None and last is not arrays:
                    yield from last.flush()
                last = arrays
                yield from arrays.add(group, block if keys is None else _of_keys(block, keys))
    if last is not None:
        yield from last.flush()


def raw_batches(
    reader: CanonicalReader, state: str, groups: Iterable[int], wanted: KeyFilter | None
) -> Iterator[pa.RecordBatch]:
    """Return the raw entries of some key groups in the file, with `columns.RAW_SCHEMA`.

    Raises:
        CorruptSnapshotError: A block is damaged.
    """
    items: list[bytes] = []
    counts: list[tuple[int, int]] = []
    for group in groups:
        keys = None if wanted is None else wanted.by_group.get(group, frozenset())
        for block in reader.blocks(state, group):
            of_keys = block if keys is None else _of_keys(block, keys)
            items += of_keys
            counts.append((group, len(of_keys) // 3))
            if len(items) >= 3 * _ENTRIES or len(counts) >= _BLOCKS:
                yield _raw_batch(items, counts)
                items, counts = [], []
    if items:
        yield _raw_batch(items, counts)


def _raw_batch(items: list[bytes], counts: list[tuple[int, int]]) -> pa.RecordBatch:
    keys, sub_keys, values = (pa.array(items[place::3], pa.binary()) for place in range(3))
    arrays = [keys, pa.array(_repeated(counts)), sub_keys, values]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def _of_keys(block: list[bytes], keys: frozenset[bytes]) -> list[bytes]:
    wanted = chain.from_iterable((found, found, found) for found in map(keys.__contains__, block[0::3]))
    return list(compress(block, wanted))


class EntryArrays:
    """Collects entries of a state that share one format, and makes Arrow batches of them.

    Args:
        decoder: Makes rows from entries that can't be vectorized.
        common: The decoder for all parts of the state, which determines the columns.
        per_entry: Whether each element of a list and each entry of a map is a row.
        where: The place, for errors.
    """

    def __init__(self, decoder: RowDecoder, common: RowDecoder, per_entry: bool, where: str) -> None:
        self._decoder = decoder
        self._common = common
        self._kind = common.kind
        self._gathers = is_gathered(common, per_entry=per_entry)
        self._schema = schema_of(keyed_columns(common, per_entry=per_entry))
        self._where = where
        self._items: list[bytes] = []
        self._groups: list[tuple[int, int]] = []
        self._blocks = 0
        self._limit = 1
        self._open_list: tuple[bytes, bytes, int] = (b"", b"", 0)

    def add(self, group: int, block: list[bytes]) -> Iterator[pa.RecordBatch]:
        """Add the next block of a key group; return batches once enough is collected."""
        if not block:
            return
        self._items += block
        self._groups.append((group, len(block) // 3))
        self._blocks += 1
        if len(self._items) >= 3 * _ENTRIES * self._limit or self._blocks >= _BLOCKS * self._limit:
            yield from self._flushed(whole=False)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Return the collected entries."""
        yield from self._flushed(whole=True)
        self._open_list = (b"", b"", 0)

    def _flushed(self, *, whole: bool) -> Iterator[pa.RecordBatch]:
        if not self._items:
            return
        entries = _Entries(self._items, self._groups, self._common)
        count = len(entries)
        if self._gathers and not whole:
            count = int(entries.begins()[-1])  # more of the last key may follow
            if count == 0:
                self._limit *= 2
                return
        rest, groups = self._items[3 * count :], _after(self._groups, count)
        yield self._batch(entries.first(count))
        self._items, self._groups, self._blocks, self._limit = rest, groups, len(groups), 1

    def _batch(self, entries: _Entries) -> pa.RecordBatch:
        if self._kind is StateKind.LIST:
            arrays = self._lists(entries)
        elif self._gathers:
            arrays = self._maps(entries)
        else:
            arrays = [*self._addresses(entries), *self._user_keys(entries), *self._values(entries)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _addresses(self, entries: _Entries, begins: Numbers | None = None) -> list[pa.Array]:
        """Return the columns of key, key group and namespace: of all entries, or of the first of each address."""
        keys, groups, namespaces = entries.keys, entries.groups, entries.namespaces
        if begins is not None:
            keys, groups = [keys[row] for row in begins], groups[begins]
            namespaces = [namespaces[row] for row in begins] if namespaces else []
        arrays = self._key_arrays(KEY, self._common.key_type, self._common.key_of, keys)
        arrays.append(pa.array(groups))
        return arrays + self._namespace_arrays(namespaces)

    def _namespace_arrays(self, namespaces: list[bytes]) -> list[pa.Array]:
        serializer = self._common.namespaces
        if serializer.is_void:
            return []
        if isinstance(serializer, KeyNamespaceSerializer):
            data = [split_namespace(one)[0] for one in namespaces]
            return self._key_arrays(
                NAMESPACE, serializer.type_info, lambda one: serializer.external(serializer.decode(one)), data
            )
        cells = Cells.of(namespaces)
        if not ((cells.lengths == _WINDOW_BYTES + 1) & (cells.data[cells.starts] == _WINDOW_BYTES)).all():
            for one in namespaces:  # an invalid one raises
                serializer.decode(split_namespace(one)[0])
        bounds = [_moved(numbers_at(cells.data, cells.starts + start, ">u8")) for start in (1, 9)]
        return [pa.StructArray.from_arrays(bounds, fields=list(self._schema.field(NAMESPACE).type))]

    def _user_keys(self, entries: _Entries) -> list[pa.Array]:
        if self._kind is not StateKind.MAP:
            return []
        return self._key_arrays(MAP_KEY, self._common.user_key_type, self._common.user_key_of, entries.sub_keys())

    def _key_arrays(
        self, name: str, key_type: TypeInformation | None, decode: Callable[[bytes], Any], keys: list[bytes]
    ) -> list[pa.Array]:
        try:
            require(key_type is not None)
            return [key_array(Cells.of(keys), key_type)]  # type: ignore[arg-type]
        except NotInColumnsError:
            values = [decode(key) for key in keys]
            return [
                column_array(name + part.suffix, map(part.of, values, keys), part.arrow_type, self._where)
                for part in parts_of(key_type)
            ]

    def _values(self, entries: _Entries) -> list[pa.Array]:
        """Return the columns of values and of their timestamps."""
        if self._kind is StateKind.TIMER:
            times = entries.sub_keys()
            cells = Cells.of(times)
            if not (cells.lengths == TIME_BYTES).all():
                for time in times:  # an invalid one raises
                    time_from_bytes(time)
            return [_moved(numbers_at(cells.data, cells.starts, ">u8"))]
        return self._stored(entries.values)

    def _stored(self, stored: list[bytes]) -> list[pa.Array]:
        cells = Cells.of(stored)
        times: pa.Array | None = None
        if self._decoder.has_timestamps:
            if not (cells.lengths > TIME_BYTES).all():
                for one in stored:  # an invalid one raises
                    without_time(one)
            times = pa.array(numbers_at(cells.data, cells.starts, ">i8").astype(np.int64))
            cells = cells.after(TIME_BYTES)
        arrays = self._value_arrays(cells)
        if self._common.has_timestamps:
            arrays.append(pa.nulls(len(stored), pa.int64()) if times is None else times)
        return arrays

    def _value_arrays(self, cells: Cells) -> list[pa.Array]:
        value_type = self._common.value_type
        try:
            require(value_type is not None and self._decoder.as_written)
            return [value_array(cells, value_type, nullable=self._kind is StateKind.MAP)]  # type: ignore[arg-type]
        except NotInColumnsError:
            data = cells.to_binary().to_pylist()
            values = [self._decoder.value_of(one) for one in data]
            return [
                column_array(VALUE + part.suffix, map(part.of, values, data), part.arrow_type, self._where)
                for part in parts_of(value_type)
            ]

    def _lists(self, entries: _Entries) -> list[pa.Array]:
        parts = [unpack_part(one) for one in entries.values]
        begins = entries.begins()
        of_parts = np.fromiter(map(len, parts), np.int64, len(parts))
        counts = np.add.reduceat(of_parts, begins)
        elements = self._stored(list(chain.from_iterable(parts)))
        addresses = self._addresses(entries, begins)
        if self._gathers:
            offsets = _offsets(counts)
            return [*addresses, *(pa.ListArray.from_arrays(offsets, array).cast(pa.list_(array.type)) for array in elements)]
        index = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        known = self._known_elements(entries, counts, int(begins[-1]))
        index[: counts[0]] += known
        rows = pa.array(np.repeat(np.arange(len(counts)), counts))
        return [*(array.take(rows) for array in addresses), pa.array(index), *elements]

    def _known_elements(self, entries: _Entries, counts: Numbers, last: int) -> int:
        """Return how many elements of the first list were in the previous batch; remember the last list, which may go on."""
        key, namespace, known = self._open_list
        if (key, namespace) != entries.address(0):
            known = 0
        self._open_list = (*entries.address(last), int(counts[-1]) + (known if len(counts) == 1 else 0))
        return known

    def _maps(self, entries: _Entries) -> list[pa.Array]:
        begins = entries.begins()
        offsets = _offsets(np.diff(begins, append=len(entries)))
        addresses = self._addresses(entries, begins)
        keys, values = self._user_keys(entries), self._values(entries)
        fields = self._schema.names[len(addresses) :]
        if self._common.user_key_type is None:
            (name,) = fields
            struct = self._schema.field(name).type.value_type
            structs = pa.StructArray.from_arrays([*keys, *values], fields=list(struct))
            return [*addresses, pa.ListArray.from_arrays(offsets, structs).cast(self._schema.field(name).type)]
        (key,) = keys
        return [*addresses, *(self._map(name, offsets, key, of) for name, of in zip(fields, values, strict=True))]

    def _map(self, name: str, offsets: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
        arrow_type = self._schema.field(name).type
        if keys.null_count:  # which Arrow can't represent: the usual error reports it
            pairs = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
            return column_array(
                name, [pairs[start:end] for start, end in pairwise(offsets.to_pylist())], arrow_type, self._where
            )
        return pa.MapArray.from_arrays(offsets, keys, values).cast(arrow_type)


class _Entries:
    """Some entries, with lazily split parts.

    Args:
        items: Key, sub-key and value of each entry.
        groups: Key groups, and the number of entries of each.
        decoder: The decoder of the state's rows.
    """

    def __init__(self, items: list[bytes], groups: list[tuple[int, int]], decoder: RowDecoder) -> None:
        self._decoder = decoder
        self.keys, self._sub_keys, self.values = items[0::3], items[1::3], items[2::3]
        self.groups = _repeated(groups)
        if decoder.namespaces.is_void:
            self.namespaces: list[bytes] = []
        else:
            self.namespaces = [sub_key[: split_namespace(sub_key)[1]] for sub_key in self._sub_keys]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.keys)

    def address(self, row: int) -> tuple[bytes, bytes]:
        """Return key and namespace of an entry."""
        return self.keys[row], self.namespaces[row] if self.namespaces else b""

    def first(self, count: int) -> _Entries:
        """Return the first entries."""
        self.keys, self._sub_keys, self.values = self.keys[:count], self._sub_keys[:count], self.values[:count]
        self.groups, self.namespaces = self.groups[:count], self.namespaces[:count]
        return self

    def sub_keys(self) -> list[bytes]:
        """Return the sub-keys, after the namespaces."""
        if self.namespaces:
            return [sub_key[len(begin) :] for sub_key, begin in zip(self._sub_keys, self.namespaces, strict=True)]
        if self._decoder.kind not in KEYED_BY_MORE:
            return self._sub_keys
        return [sub_key[len(VOID_NAMESPACE) :] for sub_key in self._sub_keys]

    def begins(self) -> Numbers:
        """Return where each new address begins."""
        differ = [True, *(key != last for last, key in pairwise(self.keys))]
        if self.namespaces:
            other = [True, *(key != last for last, key in pairwise(self.namespaces))]
            differ = [one or another for one, another in zip(differ, other, strict=True)]
        return np.flatnonzero(differ)


def _after(groups: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Return the key groups after this many entries."""
    rest = []
    for group, of_group in groups:
        left = max(0, of_group - count)
        count = max(0, count - of_group)
        if left:
            rest.append((group, left))
    return rest


def _repeated(groups: list[tuple[int, int]]) -> Numbers:
    """Return the key group of each entry."""
    return np.repeat(np.array([group for group, _ in groups], np.int32), np.array([count for _, count in groups], np.int64))


def _moved(numbers: Numbers) -> pa.Array:
    """Return numbers shifted from an encoding in which the lowest one is 0."""
    return pa.array((numbers.astype(np.uint64) ^ _SIGN).view(np.int64))


def _offsets(counts: Numbers) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
