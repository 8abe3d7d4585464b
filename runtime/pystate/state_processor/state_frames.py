"""Writes columns of a DataFrame as keyed state, without a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pystate.common.errors import PystateError, SnapshotError, StateError
from pystate.common.time import current_time_ms
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.core.api.state import StateDescriptor, StateKind
from pystate.core.records.codec import column_converter, column_values
from pystate.core.snapshot.reading.state_rows import without_pickle
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import StateMetaInfoSnapshot
from pystate.core.state.keys.key_columns import key_groups_of, packed_keys
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID_NAMESPACE
from pystate.core.state.kinds.list_parts import pack_part, part_sub_key
from pystate.core.state.not_in_columns import NotInColumnsError, require
from pystate.core.state.ttl.ttl_serializer import time_mark
from pystate.core.state.values.serializers import serializer_for
from pystate.state_processor.entry_frames import ENTRY_SCHEMA, EntryRow, KeyedEntries, entry_batches
from pystate.state_processor.packed_entries import Packed, PackedEntries
from pystate.state_processor.transformations import KeyedTransformation, OperatorTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_NIL = b"\xc0"


@dataclass(frozen=True)
class StateColumn:
    """The columns of a state.

    Attributes:
        value: The column with the value, the list or the map; with `index` or `map_key`, one element or map value.
        map_key: The column with the map key, if each row is one entry of a map.
        index: The column that orders the elements of a list, if each row is one element.
        timestamp: For state with a TTL: the column with the last access times, ms since 1970, in the same shape as the
            values; None for now.
        encoded: Whether the values are bytes, like the column `value_bytes`.
        encoded_map_key: Whether the map keys are bytes, like the column `map_key_bytes`.
    """

    value: str
    map_key: str | None = None
    index: str | None = None
    timestamp: str | None = None
    encoded: bool = False
    encoded_map_key: bool = False

    def names(self) -> list[str]:
        """Return the names of all columns."""
        return [name for name in (self.value, self.map_key, self.index, self.timestamp) if name is not None]


class StatesFromFrame(KeyedTransformation):
    """States in columns; see `OperatorTransformation.states_from_frame`."""

    def __init__(
        self,
        frame: DataFrame,
        key: str,
        states: Mapping[str, tuple[StateDescriptor, str | StateColumn]],
        key_type: TypeInformation | None,
        encoded_key: bool,
    ) -> None:
        from pystate.runtime.spark.spark_types import type_info_of

        if frame.isStreaming:
            message = "State is written from a batch DataFrame, not from a streaming one."
            raise StateError(message)
        if not states:
            message = "No states are given."
            raise StateError(message)
        self._frame = frame
        columns = [(descriptor, _as_column(name, descriptor, column)) for name, (descriptor, column) in states.items()]
        names = list(dict.fromkeys([key, *(name for _, column in columns for name in column.names())]))
        fields = {field.name: field.dataType for field in frame.schema.fields}
        for name in names:
            if name not in fields:
                message = f"The DataFrame has no column {name!r}; it has: {', '.join(fields)}."
                raise StateError(message)
        types = {name: type_info_of(fields[name], name) for name in names}
        if not encoded_key and key_type is None:
            key_type = types[key]
        self._key_type = key_type
        self._names = names
        self._stage = _Stage(key, key_type, encoded_key, types, columns)

    def entries(self, target: OperatorTarget) -> KeyedEntries:
        """Return the states and their entries."""
        from pyspark.sql.pandas.types import from_arrow_schema

        stage = _Encoding(self._stage, target.max_parallelism, f"uid {target.uid}")
        selected = self._frame.select(*(f"`{name.replace('`', '``')}`" for name in self._names))
        frame = selected.mapInArrow(stage, from_arrow_schema(ENTRY_SCHEMA))
        return KeyedEntries(self._key_type, self._stage.infos(), frame)


def _as_column(name: str, descriptor: StateDescriptor, column: str | StateColumn) -> StateColumn:
    if name != descriptor.name:
        message = f"The descriptor of state {name!r} is called {descriptor.name!r}."
        raise StateError(message)
    column = StateColumn(column) if isinstance(column, str) else column
    wrong = None
    if column.map_key is not None and descriptor.kind is not StateKind.MAP:
        wrong = "map_key"
    elif column.index is not None and descriptor.kind is not StateKind.LIST:
        wrong = "index"
    elif column.timestamp is not None and descriptor.ttl_config is None:
        wrong = "timestamp"
    elif column.encoded_map_key and column.map_key is None:
        wrong = "encoded_map_key"
    if wrong is not None:
        message = f"State {name!r} is {descriptor!r}, for which {wrong} means nothing."
        raise StateError(message)
    return column


@dataclass(frozen=True)
class _Stage:
    """The parameters of the tasks.

    Attributes:
        key: The column with the key.
        key_type: The type of the keys; None for untyped.
        encoded_key: Whether it has bytes.
        types: The types of the columns.
        columns: The states.
    """

    key: str
    key_type: TypeInformation | None
    encoded_key: bool
    types: dict[str, TypeInformation]
    columns: list[tuple[StateDescriptor, StateColumn]]

    def infos(self) -> tuple[StateMetaInfoSnapshot, ...]:
        """Return the description of the states for the savepoint."""
        return tuple(StateSchema.of(descriptor).meta_info(descriptor.name) for descriptor, _ in self.columns)


class _Encoding:
    """Turns rows into entries, in a task."""

    def __init__(self, stage: _Stage, max_parallelism: int, where: str) -> None:
        self._stage = stage
        self._max_parallelism = max_parallelism
        self._where = where

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the entries of all rows."""
        stage = self._stage
        now = current_time_ms()
        encoders = [_StateEncoder(descriptor, column, stage.types, now) for descriptor, column in stage.columns]
        for batch in batches:
            if not batch.num_rows:
                continue
            keys, groups = self._places(batch)
            for number, encoder in enumerate(encoders):
                try:
                    rows, sub_keys, values = encoder.packed(batch)
                except NotInColumnsError:
                    yield from entry_batches(self._entries(encoder, number, batch, keys, groups))
                    continue
                if len(rows):
                    numbers = pa.array(np.full(len(rows), number, np.int32))
                    arrays = [groups.take(rows), numbers, keys.take(rows), sub_keys, values]
                    yield pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)

    def _entries(
        self, encoder: _StateEncoder, number: int, batch: pa.RecordBatch, keys: pa.Array, groups: pa.Array
    ) -> Iterator[EntryRow]:
        for group, data, entries in zip(groups.to_pylist(), keys.to_pylist(), encoder.entries(batch), strict=True):
            for sub_key, value in entries:
                yield group, number, data, sub_key, value

    def _places(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the bytes and the key group of each row's key."""
        stage = self._stage
        codec = KeyCodec(stage.key_type)
        try:
            require(not stage.encoded_key and stage.key_type is not None)
            keys = packed_keys(batch_column(batch, stage.key), stage.key_type)  # type: ignore[arg-type]
            return keys, pa.array(key_groups_of(keys, self._max_parallelism))
        except NotInColumnsError:
            internal = [self._internal(codec, key) for key in self._keys(batch)]
            groups = [codec.key_group(key, self._max_parallelism) for key in internal]
            return pa.array(map(codec.encode, internal), pa.binary()), pa.array(groups, pa.int32())

    def _keys(self, batch: pa.RecordBatch) -> list[Any]:
        stage = self._stage
        if stage.encoded_key:
            return _values(batch, stage.key, _BYTES)
        wanted = stage.types[stage.key] if stage.key_type is None else stage.key_type
        return _values(batch, stage.key, wanted)

    def _internal(self, codec: KeyCodec, key: Any) -> Any:
        return codec.decode(key) if self._stage.encoded_key and key is not None else codec.internal(key)


class _StateEncoder:
    """Encodes one state."""

    def __init__(
        self, descriptor: StateDescriptor, column: StateColumn, types: dict[str, TypeInformation], now: int
    ) -> None:
        self._name = descriptor.name
        self._kind = descriptor.kind
        self._column = column
        self._types = types
        self._now = now
        schema = StateSchema.of(descriptor)
        self._serializer = schema.values
        self._value_type = _BYTES if column.encoded else descriptor.type_info
        self._user_keys = schema.user_keys
        self._timed = descriptor.ttl_config is not None
        self._check_encoded = serializer_for(without_pickle(descriptor.type_info)).deserialize
        user_key_type = None if self._user_keys is None else self._user_keys.key_type
        self._columns = PackedEntries(self._kind, descriptor.type_info, user_key_type, timed=self._timed, now=now)

    def packed(self, batch: pa.RecordBatch) -> Packed:
        """Return the entries of a batch, with vectorized encoding.

        Raises:
            NotInColumnsError: They have to be made row by row, by `entries`.
        """
        column, types = self._column, self._types
        require(not column.encoded and not column.encoded_map_key)
        values, value_type = batch_column(batch, column.value), types[column.value]
        times = None if column.timestamp is None else batch_column(batch, column.timestamp)
        if column.map_key is not None:
            map_keys = batch_column(batch, column.map_key)
            return self._columns.map_entries(values, value_type, map_keys, types[column.map_key], times)
        if column.index is not None:
            return self._columns.elements(values, value_type, batch_column(batch, column.index), times)
        if self._kind not in (StateKind.LIST, StateKind.MAP):
            return self._columns.values(values, value_type, times)
        require(times is None)
        whole = self._columns.lists if self._kind is StateKind.LIST else self._columns.maps
        return whole(values, value_type)

    def entries(self, batch: pa.RecordBatch) -> Iterator[list[tuple[bytes, bytes]]]:
        """Return the (sub-key, value) pairs of each row.

        Raises:
            SnapshotError: A value doesn't have the type of the state.
        """
        column = self._column
        whole = column.map_key is None and column.index is None
        encode: Callable[[Any, Any, bytes | None], list[tuple[bytes, bytes]]] = self._single
        if self._kind is StateKind.MAP and whole:
            encode = self._map
        elif self._kind is StateKind.LIST and whole:
            encode = self._list
        values = self._cells(batch, column.value, self._kind, whole)
        times = [None] * batch.num_rows if column.timestamp is None else batch_column(batch, column.timestamp).to_pylist()
        places = self._places(batch)
        for value, moment, place in zip(values, times, places, strict=True):
            try:
                yield [] if value is None and place is None else encode(value, moment, place)
            except (PystateError, ValueError, TypeError, LookupError, AttributeError) as error:
                why = error.message if isinstance(error, PystateError) else repr(error)
                message = f"Column {column.value!r} doesn't fit state {self._name!r}: {why}"
                raise SnapshotError(message, hint="cast the column, or declare its type") from error

    def _cells(self, batch: pa.RecordBatch, name: str, kind: StateKind, whole: bool) -> list[Any]:
        array = batch_column(batch, name)
        if whole and kind in (StateKind.LIST, StateKind.MAP):
            values: list[Any] = array.to_pylist()
            return values
        return column_values(array, column_converter(self._value_type or self._types[name]))

    def _places(self, batch: pa.RecordBatch) -> list[bytes | None]:
        column = self._column
        if column.index is not None:
            return [part_sub_key(index) for index in batch_column(batch, column.index).to_pylist()]
        if column.map_key is None or self._user_keys is None:
            return [None] * batch.num_rows
        keys = self._user_keys
        if column.encoded_map_key:
            found = [keys.encode(keys.decode(key)) for key in _values(batch, column.map_key, _BYTES)]
        else:
            wanted = keys.key_type or self._types[column.map_key]
            found = [keys.encode(keys.internal(key)) for key in _values(batch, column.map_key, wanted)]
        return [VOID_NAMESPACE + key for key in found]

    def _single(self, value: Any, moment: int | None, place: bytes | None) -> list[tuple[bytes, bytes]]:
        data = self._bytes(value, moment)
        if self._kind is StateKind.LIST:
            data = pack_part([data])
        return [(place or b"", data)]

    def _list(self, values: Any, moments: Any, _: bytes | None) -> list[tuple[bytes, bytes]]:
        convert = self._converter("elements")
        times = moments or [None] * len(values)
        elements = [self._bytes(convert(value), moment) for value, moment in zip(values, times, strict=True)]
        return [(part_sub_key(0), pack_part(elements))] if elements else []

    def _map(self, pairs: Any, moments: Any, _: bytes | None) -> list[tuple[bytes, bytes]]:
        keys = self._user_keys
        assert keys is not None  # noqa: S101 - the state is a map
        convert_key, convert = self._converter("map keys"), self._converter("map values")
        times = [None] * len(pairs) if moments is None else [moment for _, moment in moments]
        entries = []
        for (key, value), moment in zip(pairs, times, strict=True):
            place = VOID_NAMESPACE + keys.encode(keys.internal(convert_key(key)))
            entries.append((place, self._bytes(None if value is None else convert(value), moment)))
        return entries

    def _converter(self, what: str) -> Callable[[Any], Any]:
        """Return a converter from the inner cells of a cell to values."""
        outer = self._types[self._column.value]
        if what == "map keys":
            assert self._user_keys is not None  # noqa: S101 - the state is a map
            inner = self._user_keys.key_type or _part(outer, TypeKind.MAP, 0)
        elif what == "map values":
            inner = self._value_type or _part(outer, TypeKind.MAP, 1)
        else:
            inner = self._value_type or _part(outer, TypeKind.LIST, 0)
        return column_converter(inner).from_arrow or (lambda value: value)

    def _bytes(self, value: Any, moment: int | None) -> bytes:
        if self._column.encoded:
            data = _NIL if value is None else bytes(value)
            if data != _NIL or self._kind is not StateKind.MAP:
                self._check_encoded(data)
        else:
            if value is None and self._kind is not StateKind.MAP:
                message = "it is null"
                raise ValueError(message)
            data = self._serializer.serialize(self._serializer.check(value))
        if not self._timed:
            return data
        return time_mark(self._now if moment is None else moment) + data


def _part(type_info: TypeInformation, kind: TypeKind, index: int) -> TypeInformation:
    if type_info.kind is not kind:
        message = f"it is {type_info.name}, not {kind.value}"
        raise TypeError(message)
    return type_info.elements[index]


def batch_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column by name."""
    return batch.column(batch.schema.names.index(name))


def _values(batch: pa.RecordBatch, name: str, type_info: TypeInformation) -> list[Any]:
    return column_values(batch_column(batch, name), column_converter(type_info))
