"""Reads savepoints and checkpoints as Spark DataFrames: Flink's `SavepointReader`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pystate.common.errors import SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.type_info import TypeInformation
from pystate.core.api.timer_service import TimeDomain
from pystate.core.api.window.assigners import WindowAssigner
from pystate.core.records.codec import RecordCodec
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, SnapshotReader
from pystate.core.snapshot.reading.snapshot_table import select_state, state_table
from pystate.core.snapshot.reading.state_rows import PartDecoders, RowDecoder, readable_key_type, value_decoder
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import key_type_name
from pystate.core.state.keys.namespaces import VOID_NAMESPACE
from pystate.core.state.operator.format import OperatorStateMode
from pystate.runtime.slot.timers.timer_services import USER_TIMERS
from pystate.state_processor.entry_arrays import batches_of_entries, raw_batches
from pystate.state_processor.frame_columns import (
    RAW_SCHEMA,
    batches_of,
    broadcast_columns,
    keyed_columns,
    list_columns,
    schema_of,
)
from pystate.state_processor.offline import OfflineKeyedState, pickled, results_of, unpickled
from pystate.state_processor.offline_timers import ReadTimers
from pystate.state_processor.processor_functions import KeyedStateReaderFunction
from pystate.state_processor.snapshot_tree import SnapshotTree
from pystate.state_processor.splits import SPLIT_BYTES, KeyedSplit, SplitSource, frame_of, keyed_splits, tasks_of
from pystate.state_processor.window_reader import WindowSavepointReader

if TYPE_CHECKING:
    from pandas import DataFrame as PandasDataFrame
    from pyspark.sql import DataFrame, SparkSession

_OPERATORS = "uid string, name string, parallelism int, max_parallelism int, key_type string, state_size long"
_STATES = (
    "name string, kind string, key_type string, map_key_type string, type string, ttl boolean, entries long, bytes long"
)
_FUNCTION_BATCH = 2048


class SavepointReader:
    """A reader of one savepoint or checkpoint. Create it with `SavepointReader.read`."""

    def __init__(self, spark: SparkSession | None, snapshot: SnapshotReader) -> None:
        self._session = spark
        self._snapshot = snapshot

    @staticmethod
    def read(spark: SparkSession | None, path: str) -> SavepointReader:
        """Open a savepoint. A notebook shows it as its tree of operators and states.

        Args:
            spark: The session that reads; its workers must reach the path. None to look at the tree and read with
                `to_pandas` without Spark.
            path: The directory of the savepoint or checkpoint, or its `_metadata`.

        Raises:
            SnapshotError: It doesn't exist, or is damaged.
        """
        return SavepointReader(spark, SnapshotReader(path))

    @property
    def _spark(self) -> SparkSession:
        if self._session is None:
            message = "The savepoint was opened without a Spark session, which a DataFrame of Spark's needs."
            raise SnapshotError(message, hint="SavepointReader.read(env.spark, path), or to_pandas(uid, state)")
        return self._session

    @property
    def metadata(self) -> CheckpointMetadata:
        """The content of `_metadata`."""
        return self._snapshot.metadata

    def operators(self) -> DataFrame:
        """Return a row per operator: uid, name, parallelism, max parallelism, type of the keys, bytes of state."""
        rows = [
            (
                operator.uid,
                operator.name,
                operator.parallelism,
                operator.max_parallelism,
                _type_name(operator.key_type, operator.has_keyed_state),
                operator.state_size,
            )
            for operator in self.metadata.operators
        ]
        return self._spark.createDataFrame(rows, _OPERATORS)

    def to_pandas(self, uid: str, state: str, *, key: str | None = None, limit: int = 100_000) -> PandasDataFrame:
        """Return a state of any kind as a DataFrame of pandas, read in this process without Spark.

        A row is a value, an element of a list or an entry of a map; the columns are those of `pystate state read`.

        Args:
            uid: The operator.
            state: The name of the state.
            key: The only key to read, as text in the form of its type; the map key of broadcast state.
            limit: The maximum number of rows.

        Raises:
            SnapshotError: There is no such operator or state, a file is damaged, or there are more rows than the limit.
            UsageError: The text isn't a key, or the state has no keys.
        """
        import pandas as pd

        table = state_table(select_state(self._snapshot, uid, state, key))
        rows = list(itertools.islice(table.rows, limit + 1))
        if len(rows) > limit:
            message = f"State {state!r} of operator {uid!r} has more than {limit:,} rows."
            raise SnapshotError(message, hint="give a higher limit, or read_keyed_state(...) with a Spark session")
        return pd.DataFrame([list(row) for row in rows], columns=list(table.columns))

    def __repr__(self) -> str:
        """Return the tree of operators and states as text."""
        return SnapshotTree(self._snapshot).text()

    def _repr_html_(self) -> str:
        return SnapshotTree(self._snapshot).html()

    def keyed_states(self, uid: str) -> DataFrame:
        """Return a row per keyed state of an operator: name, kind, types, whether values have timestamps, sizes.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        rows = []
        for state in self._snapshot.keyed_states(uid):
            decoder = RowDecoder(state.info, state.key_type)
            value = state.info.serializer.get("type")
            map_key = key_type_name(decoder.user_key_type) if state.info.user_key is not None else None
            names = key_type_name(state.key_type), map_key, _type_name(value, state.info.timers is None)
            rows.append((state.name, state.kind, *names, state.info.ttl, state.entries, state.bytes))
        return self._spark.createDataFrame(rows, _STATES)

    def read_keyed_state(
        self,
        uid: str,
        state: str | KeyedStateReaderFunction,
        *,
        key: Any = None,
        keys: Collection[Any] | None = None,
        per_entry: bool = False,
        raw: bool = False,
        key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
        user_key_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> DataFrame:
        """Return a keyed state, or the rows that a function returns for each key.

        The columns are `key`, `key_group`, `value`, and `ttl_timestamp` (ms since 1970) where values have a time to live.
        State with namespaces has a column `namespace`, for time windows a struct of `start` and `end`. The `value` of a
        timer is its time. Untyped data is shown as JSON text, with its exact bytes in `key_bytes`, `namespace_bytes` or
        `value_bytes`. A list is an array, a map a map (an array of structs where its keys have no declared type).

        Args:
            uid: The operator.
            state: The name of the state, or a function.
            key: Only this key; only the blocks of its key group are read.
            keys: Only these keys.
            per_entry: Return a row for each element of a list (with its `index`) and each entry of a map (with its
                `map_key`), so that a key needn't fit into memory.
            raw: Return the raw entries of the files: `key_bytes`, `key_group`, `sub_key`, `value_bytes`.
            key_type: The type to read keys as; None for the type written.
            type_info: The type to read values, elements or map values as; None for the type written.
            user_key_type: The type to read map keys as; None for the type written.
            output_type: The type of a function's rows, a ROW or TUPLE for several columns.
            split_bytes: The approximate number of bytes of state per Spark task.

        Raises:
            SnapshotError: There is no such operator or state, a file is damaged, or the state can't be read as these types.
            StateError: A key doesn't have the type of the keys.
        """
        if key is not None:
            keys = [key] if keys is None else [key, *keys]
        if isinstance(state, KeyedStateReaderFunction):
            return self._read_with(uid, state, keys, key_type, output_type, split_bytes)
        snapshot = self._snapshot
        operator = snapshot.operator(uid)
        found = snapshot.keyed_state(uid, state)
        options = (key_type, type_info, user_key_type)
        where = f"operator {uid!r}, state {state!r}"
        source = SplitSource.of(snapshot, operator)
        task = _StateTask(source, state, found.parts, found.key_type, options, None, per_entry, raw, where)
        wanted = None if keys is None else KeyFilter.of(keys, task.decoders().common.key_type, operator.max_parallelism)
        splits = keyed_splits(snapshot, operator, [state], wanted, split_bytes, tasks_of(self._spark))
        return frame_of(self._spark, splits, task.schema(), replace(task, wanted=wanted))

    def window(self, assigner: WindowAssigner) -> WindowSavepointReader:
        """Return a reader of windows, given the assigner of the job."""
        return WindowSavepointReader(self._spark, self._snapshot, assigner)

    def read_timers(
        self, uid: str, *, keys: Collection[Any] | None = None, key_type: TypeInformation | None = None
    ) -> DataFrame:
        """Return a row per timer of an operator (pystate only: in Flink a function reads the timers of its key).

        The columns are those of `read_keyed_state`, with `timestamp` (ms since 1970) instead of `value`, followed by
        `service` (`user-timers`, `window-timers`) and `domain` (`EVENT_TIME`, `PROCESSING_TIME`).

        Args:
            uid: The operator.
            keys: Only the timers of these keys.
            key_type: The type to read keys as; None for the type written.

        Raises:
            SnapshotError: There is no such operator, it has no timers, or a file is damaged.
        """
        from pyspark.sql import functions as F

        found: DataFrame | None = None
        for state in self._snapshot.described_states(uid):
            if state.info.timers is None:
                continue
            schema = TimerSchema.from_meta_info(state.info)
            read = self.read_keyed_state(uid, state.name, keys=keys, key_type=key_type)
            service, domain = F.lit(schema.service).alias("service"), F.lit(schema.domain.name).alias("domain")
            frame = read.withColumnRenamed("value", "timestamp").select("*", service, domain)
            found = frame if found is None else found.unionByName(frame, allowMissingColumns=True)
        if found is None:
            message = f"The operator {uid!r} has no timers."
            raise SnapshotError(message, where=self._snapshot.location.uri)
        return found

    def read_list_state(self, uid: str, name: str, *, type_info: TypeInformation | None = None) -> DataFrame:
        """Return the elements of a list state: `subtask` (that wrote it), `value`.

        Args:
            uid: The operator.
            name: The state.
            type_info: The type to read elements as; None for the type written.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        return self._read_list(uid, name, OperatorStateMode.SPLIT_DISTRIBUTE, type_info)

    def read_union_state(self, uid: str, name: str, *, type_info: TypeInformation | None = None) -> DataFrame:
        """Return the elements of a union list state, see `read_list_state`."""
        return self._read_list(uid, name, OperatorStateMode.UNION, type_info)

    def read_broadcast_state(
        self,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
    ) -> DataFrame:
        """Return the entries of a broadcast state, as one subtask has it: `map_key`, `value`.

        Args:
            uid: The operator.
            name: The state.
            key_type: The type to read map keys as; None for the type written.
            type_info: The type to read values as; None for the type written.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self._snapshot.operator_state.state(uid, name, OperatorStateMode.BROADCAST)
        written, _ = self._snapshot.operator_state.broadcast_keys(state, key_type)
        value_type, _ = value_decoder(state.serializer, type_info, name)
        columns = broadcast_columns(written, value_type)
        uri = self._snapshot.location.uri

        def read(_: int) -> Iterator[pa.RecordBatch]:
            entries = SnapshotReader(uri).operator_state.broadcast_entries(uid, name, key_type=key_type, type_info=type_info)
            rows = ((key, data, value, b"\xc0" if raw is None else raw) for key, data, value, raw in entries)
            return batches_of(columns, rows, f"operator {uid!r}, state {name!r}")

        return frame_of(self._spark, [0], schema_of(columns), read)

    def _read_list(self, uid: str, name: str, mode: OperatorStateMode, type_info: TypeInformation | None) -> DataFrame:
        state = self._snapshot.operator_state.state(uid, name, mode)
        value_type, _ = value_decoder(state.serializer, type_info, name)
        columns = list_columns(value_type)
        uri = self._snapshot.location.uri
        subtasks = [
            index
            for index, subtask in sorted(self._snapshot.operator(uid).subtasks.items())
            if any(name in handle.states for handle in subtask.operator_state)
        ]

        def read(subtask: int) -> Iterator[pa.RecordBatch]:
            rows = SnapshotReader(uri).operator_state.list_elements(uid, name, type_info=type_info, subtask=subtask)
            return batches_of(columns, rows, f"operator {uid!r}, state {name!r}")

        return frame_of(self._spark, subtasks, schema_of(columns), read)

    def _read_with(
        self,
        uid: str,
        function: KeyedStateReaderFunction,
        keys: Collection[Any] | None,
        key_type: TypeInformation | None,
        output_type: TypeInformation | None,
        split_bytes: int,
    ) -> DataFrame:
        if output_type is None:
            message = "What a KeyedStateReaderFunction returns needs a type."
            raise SnapshotError(message, hint="give output_type=Types.ROW_NAMED([...], [...])")
        snapshot = self._snapshot
        operator = snapshot.operator(uid)
        described = snapshot.described_states(uid)
        written = described[0].key_type if described else None
        wanted_type = readable_key_type(written, key_type, f"The keys of operator {uid!r}")
        wanted = None if keys is None else KeyFilter.of(keys, wanted_type, operator.max_parallelism)
        splits = keyed_splits(snapshot, operator, None, wanted, split_bytes, tasks_of(self._spark))
        task = _FunctionTask(SplitSource.of(snapshot, operator), pickled(function), wanted_type, wanted, output_type)
        return frame_of(self._spark, splits, RecordCodec(output_type, uid).schema, task)


@dataclass(frozen=True)
class _StateTask:
    """Reads splits of one state."""

    source: SplitSource
    state: str
    parts: tuple[StateMetaInfoSnapshot, ...]
    key_type: TypeInformation | None
    options: tuple[TypeInformation | None, TypeInformation | None, TypeInformation | None]
    wanted: KeyFilter | None
    per_entry: bool
    raw: bool
    where: str

    def schema(self) -> pa.Schema:
        """Return the columns of the frame."""
        return RAW_SCHEMA if self.raw else schema_of(keyed_columns(self.decoders().common, per_entry=self.per_entry))

    def __call__(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a split."""
        with self.source.open(split) as (reader, _):
            if self.raw and reader.parts(self.state):
                yield from raw_batches(reader, self.state, split.key_groups, self.wanted)
            elif reader.parts(self.state):
                yield from batches_of_entries(
                    reader,
                    self.state,
                    self.decoders(),
                    split.key_groups,
                    self.wanted,
                    per_entry=self.per_entry,
                    where=self.where,
                )

    def decoders(self) -> PartDecoders:
        """Return the decoders of the files' entries."""
        key_type, type_info, user_key_type = self.options
        return PartDecoders(
            self.parts, self.key_type, read_key_type=key_type, type_info=type_info, read_user_key_type=user_key_type
        )


class _ReaderContext(KeyedStateReaderFunction.Context):
    """Gives a function the timers of the current key, whose bytes are set by the caller."""

    def __init__(self, timers: ReadTimers) -> None:
        self._timers = timers
        self.key = b""

    def registered_event_time_timers(self) -> list[int]:
        return self._timers.of(TimeDomain.EVENT_TIME, self.key, VOID_NAMESPACE)

    def registered_processing_time_timers(self) -> list[int]:
        return self._timers.of(TimeDomain.PROCESSING_TIME, self.key, VOID_NAMESPACE)


@dataclass(frozen=True)
class _FunctionTask:
    """Calls a function for the keys of splits."""

    source: SplitSource
    function: bytes
    key_type: TypeInformation | None
    wanted: KeyFilter | None
    output_type: TypeInformation

    def __call__(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a split."""
        codec = RecordCodec(self.output_type, self.source.operator.uid)
        function: KeyedStateReaderFunction = unpickled(self.function)
        operator = self.source.operator
        groups = KeyGroupRange(split.key_groups[0], split.key_groups[-1])
        pending: list[Any] = []
        with (
            self.source.open(split) as (reader, file),
            OfflineKeyedState(
                operator.uid, function, self.key_type, groups, operator.max_parallelism, sources=[file]
            ) as opened,
        ):
            backend = opened.backend
            timers = ReadTimers(reader, USER_TIMERS)
            ctx = _ReaderContext(timers)
            known = {info.name for info in reader.header.states}
            declared = [name for name in opened.context.states if name in known]
            for group in split.key_groups:
                timers.select(group)
                for data in self._keys(reader, declared, group):
                    ctx.key = data
                    internal = backend.key_codec.decode(data)
                    backend.set_current_key(internal, group)
                    pending += results_of(function.read_key(backend.key_codec.external(internal), ctx))
                    if len(pending) >= _FUNCTION_BATCH:
                        yield _encoded(codec, pending)
                        pending = []
                backend.rollback_epoch()  # state that the function read is dropped
        if pending:
            yield _encoded(codec, pending)

    def _keys(self, reader: CanonicalReader, states: list[str], group: int) -> Iterable[bytes]:
        wanted = None if self.wanted is None else self.wanted.by_group.get(group, frozenset())
        found: dict[bytes, None] = {}
        for name in states:
            for data, _, _ in reader.entries(name, group):
                if wanted is None or data in wanted:
                    found[data] = None
        return found


def _encoded(codec: RecordCodec, results: list[Any]) -> pa.RecordBatch:
    prepared = results if codec.prepare is None else [codec.prepare(result) for result in results]
    return pa.RecordBatch.from_arrays(codec.encode(prepared), schema=codec.schema)


def _type_name(plain: dict[str, Any] | None, known: bool) -> str | None:
    if not known:
        return None
    return "untyped" if plain is None else TypeInformation.from_plain(plain).name
