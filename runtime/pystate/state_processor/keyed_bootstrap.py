"""Runs a `KeyedStateBootstrapFunction` over data, by key group, and returns the written state as entries.

A subtask's elements are ordered by key group. At the end of a key group, once enough state has accumulated, it is emitted
and dropped, so a subtask's state may be larger than memory.
"""

from __future__ import annotations

import inspect
import io
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange, key_group_range
from pystate.common.type_info import TypeInformation
from pystate.core.api.timer_service import TimerService
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, RESERVED_PREFIX
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.key_columns import key_groups_of, packed_keys
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.not_in_columns import NotInColumnsError, require
from pystate.state_processor.entry_frames import ENTRY_SCHEMA, KeyedEntries, block_batch
from pystate.state_processor.offline import OfflineKeyedState, pickled, unpickled
from pystate.state_processor.offline_timers import BootstrappedTimers, asks_for_timers, undeclared_timers
from pystate.state_processor.processor_functions import KeyedStateBootstrapFunction
from pystate.state_processor.transformations import (
    ORDINAL_FIELD,
    Elements,
    KeyedTransformation,
    OperatorTarget,
    decoded,
)

GATHERED_ELEMENTS = 50_000
"""What so many elements wrote is handed on at the end of their key group."""

_SUBTASK_FIELD = RESERVED_PREFIX + "subtask"


class _Context(KeyedStateBootstrapFunction.Context):
    def __init__(self, backend: KeyedStateBackend, timers: BootstrappedTimers | None, where: str) -> None:
        self._backend = backend
        self._timers = timers
        self._where = where

    def get_current_key(self) -> Any:
        return self._backend.current_key

    def timer_service(self) -> TimerService:
        if self._timers is None:
            raise undeclared_timers(self._where)
        return self._timers.service


@dataclass(frozen=True)
class KeyedBootstrap(KeyedTransformation):
    """A bootstrap function over keyed elements.

    Attributes:
        elements: The elements.
        key_of: Returns the key of an element.
        key_type: The type of the keys; None for untyped.
        function: The function.
        key_column: The column of the key, if `key_of` reads it from there.
        gathered_elements: See `GATHERED_ELEMENTS`.
    """

    elements: Elements
    key_of: Callable[[Any], Any]
    key_type: TypeInformation | None
    function: KeyedStateBootstrapFunction
    key_column: str | None = None
    gathered_elements: int = GATHERED_ELEMENTS
    _taken: tuple[bytes, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Pickle the functions in their current state, like jobs do."""
        object.__setattr__(self, "_taken", (pickled(self.function), pickled(self.key_of)))

    def entries(self, target: OperatorTarget) -> KeyedEntries:
        """Return the states and their entries."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T
        from pyspark.sql.pandas.types import from_arrow_schema

        states = self._declared(target)
        run = _Run(
            target.uid,
            *self._taken,
            self.elements.type_info,
            self.key_column,
            self.key_type,
            states,
            target.parallelism,
            target.max_parallelism,
            self.gathered_elements,
        )
        frame = self.elements.frame(target.spark)
        keyed_schema = T.StructType(
            [*frame.schema.fields, T.StructField(KEY_FIELD, T.BinaryType()), T.StructField(KEY_GROUP_FIELD, T.IntegerType())]
        )
        keyed = frame.mapInArrow(run.with_keys, keyed_schema)
        subtask = F.expr(
            f"cast(cast({KEY_GROUP_FIELD} as bigint) * {target.parallelism} div {target.max_parallelism} as int)"
        )
        routed = keyed.withColumn(_SUBTASK_FIELD, subtask).repartitionById(target.parallelism, F.col(_SUBTASK_FIELD))
        ordered = routed.sortWithinPartitions(_SUBTASK_FIELD, KEY_GROUP_FIELD, ORDINAL_FIELD)
        return KeyedEntries(self.key_type, states, ordered.mapInArrow(run.entries, from_arrow_schema(ENTRY_SCHEMA)))

    def _declared(self, target: OperatorTarget) -> tuple[StateMetaInfoSnapshot, ...]:
        """Return the states that the function declares."""
        function = unpickled(self._taken[0])
        groups = KeyGroupRange(0, 0)
        subtask = (0, target.parallelism)
        with OfflineKeyedState(target.uid, function, self.key_type, groups, target.max_parallelism, subtask) as opened:
            if asks_for_timers(function):
                BootstrappedTimers(opened.backend)
            snapshot = opened.backend.snapshot()
            try:
                file = io.BytesIO()
                snapshot.write_canonical(file)
            finally:
                snapshot.release()
        states = CanonicalReader(file).header.states
        if not states:
            message = f"{type(self.function).__name__} declares no state."
            raise StateError(message, where=f"uid {target.uid}", hint="declare all states in open()")
        return states


@dataclass(frozen=True)
class _Run:
    """The code that runs in the tasks."""

    uid: str
    function: bytes
    key_of: bytes
    type_info: TypeInformation | None
    key_column: str | None
    key_type: TypeInformation | None
    states: tuple[StateMetaInfoSnapshot, ...]
    parallelism: int
    max_parallelism: int
    gathered_elements: int

    def with_keys(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add key and key group to the rows."""
        for batch in batches:
            try:
                columns = self._keys_of_column(batch)
            except NotInColumnsError:
                columns = self._keys_of_elements(batch)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *columns], names=[*batch.schema.names, KEY_FIELD, KEY_GROUP_FIELD]
            )

    def _keys_of_column(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return keys and key groups from a key column."""
        require(self.key_column is not None and self.key_type is not None)
        column = batch.column(batch.schema.names.index(self.key_column))
        keys = packed_keys(column, self.key_type)  # type: ignore[arg-type]
        return keys, pa.array(key_groups_of(keys, self.max_parallelism))

    def _keys_of_elements(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        key_of, codec = unpickled(self.key_of), KeyCodec(self.key_type)
        keys = [codec.internal(key_of(element)) for _, elements in decoded(self.type_info, [batch]) for element in elements]
        key_groups = [codec.key_group(key, self.max_parallelism) for key in keys]
        return pa.array(map(codec.encode, keys), pa.binary()), pa.array(key_groups, pa.int32())

    def entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function over ordered rows; return the written entries."""
        for subtask, rows in groupby(self._rows(batches), itemgetter(0)):
            yield from self._entries_of(subtask, rows)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes, Any]]:
        for batch, elements in decoded(self.type_info, batches):
            names = (_SUBTASK_FIELD, KEY_GROUP_FIELD, KEY_FIELD)
            columns = [batch.column(batch.schema.names.index(name)).to_pylist() for name in names]
            yield from zip(*columns, elements, strict=True)

    def _entries_of(self, subtask: int, rows: Iterable[tuple[int, int, bytes, Any]]) -> Iterator[pa.RecordBatch]:
        function: KeyedStateBootstrapFunction = unpickled(self.function)
        groups = key_group_range(subtask, self.parallelism, self.max_parallelism)
        place = (subtask, self.parallelism)
        with OfflineKeyedState(self.uid, function, self.key_type, groups, self.max_parallelism, place) as opened:
            backend = opened.backend
            timers = BootstrappedTimers(backend) if asks_for_timers(function) else None
            ctx = _Context(backend, timers, f"uid {self.uid}")
            decode = backend.key_codec.decode
            touched: dict[Hashable, int] = {}
            count, last_group = 0, -1
            for _, group, data, element in rows:
                if group != last_group and count >= self.gathered_elements:
                    yield from self._hand_on(opened, touched, timers)
                    touched, count = {}, 0
                last_group = group
                key = decode(data)
                backend.set_current_key(key, group)
                if inspect.isgenerator(function.process_element(element, ctx)):
                    message = f"{type(function).__name__}.process_element yields: a bootstrap function has no results."
                    raise StateError(message, where=f"uid {self.uid}", hint="write to the states only")
                touched[key] = group
                count += 1
            yield from self._hand_on(opened, touched, timers)

    def _hand_on(
        self, opened: OfflineKeyedState, touched: dict[Hashable, int], timers: BootstrappedTimers | None
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries of the backend, and clear it."""
        backend = opened.backend
        numbers = {info: number for number, info in enumerate(info.name for info in self.states)}
        backend.flush_epoch()
        with tempfile.TemporaryFile(prefix="pystate-bootstrap-") as file:
            snapshot = backend.snapshot()
            try:
                snapshot.write_canonical(file)
            finally:
                snapshot.release()
            reader = CanonicalReader(file)
            if reader.header.states != self.states:
                message = f"{type(self).__name__} declares other states in each of its copies."
                raise StateError(message, where=f"uid {self.uid}", hint="declare the same states in every call of open()")
            for group in reader.key_groups():
                for name, number in numbers.items():
                    for block in reader.blocks(name, group):
                        yield block_batch(group, number, block)
        for internal, group in touched.items():
            backend.set_current_key(internal, group)
            for state in opened.context.states.values():
                state.clear()
        if timers is not None:
            timers.clear()
        backend.flush_epoch()
