"""Reads the contents of windows: Flink's `WindowSavepointReader`, and the tasks that call a function per window."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pystate.common.errors import SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import AggregateFunction, KeyedStateStore, ReduceFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateKind,
)
from pystate.core.api.timer_service import TimeDomain
from pystate.core.api.window.assigners import MergingWindowAssigner, WindowAssigner
from pystate.core.records.codec import RecordCodec
from pystate.core.snapshot.reading.keyed_files import key_type_of
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.reading.window_rows import shares_panes
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS, PaneState
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.namespaces import split_namespace
from pystate.runtime.slot.operators.keyed_state_store import DescribedStates
from pystate.runtime.slot.operators.windowing.merging_window_set import MergingWindowSet
from pystate.runtime.slot.operators.windowing.pane_conversion import contents_of_panes
from pystate.runtime.slot.operators.windowing.window_namespaces import WindowNamespaces, window_namespaces
from pystate.runtime.slot.operators.windowing.window_operator import WINDOW_TIMERS
from pystate.runtime.slot.operators.windowing.window_state_stores import (
    MergingWindowStateStore,
    PerWindowStateStore,
    WindowStates,
)
from pystate.state_processor.offline import OfflineKeyedState, pickled, results_of, unpickled
from pystate.state_processor.offline_timers import ReadTimers
from pystate.state_processor.processor_functions import WindowReaderFunction
from pystate.state_processor.splits import SPLIT_BYTES, KeyedSplit, SplitSource, frame_of, keyed_splits, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FUNCTION_BATCH = 2048


class _PassThrough(WindowReaderFunction):
    """Returns the contents of a window, like Flink's PassThroughReader."""

    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class WindowSavepointReader:
    """A reader of the windows of one assigner in a savepoint. Create it with `SavepointReader.window`.

    Args:
        spark: The session that reads.
        snapshot: The savepoint.
        assigner: The assigner of the job's `window(...)`.
        evicting: Whether the job has an evictor, so that elements are kept with their timestamps.
    """

    def __init__(
        self, spark: SparkSession, snapshot: SnapshotReader, assigner: WindowAssigner, *, evicting: bool = False
    ) -> None:
        self._spark = spark
        self._snapshot = snapshot
        self._assigner = assigner
        self._evicting = evicting

    def evictor(self) -> WindowSavepointReader:
        """Return a reader of windows with an evictor."""
        return WindowSavepointReader(self._spark, self._snapshot, self._assigner, evicting=True)

    def reduce(
        self,
        uid: str,
        function: ReduceFunction | Callable[[Any, Any], Any],
        reader_function: WindowReaderFunction | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataFrame:
        """Return the rows of a reader function for each window of `reduce(...)`; it gets the one value.

        Args:
            uid: The operator.
            function: The function of the job.
            reader_function: Makes rows from a window; None for the value itself.
            output_type: The type of the rows; None for that of the elements.

        Raises:
            SnapshotError: There is no such operator, it has no such windows, or the type of the rows is unknown.
        """
        return self._read(uid, StateKind.REDUCING, reader_function, output_type, function)

    def aggregate(
        self,
        uid: str,
        function: AggregateFunction,
        reader_function: WindowReaderFunction | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataFrame:
        """Return the rows of a reader function for each window of `aggregate(...)`; it gets the one result.

        See `reduce`; the `output_type` must be given.
        """
        return self._read(uid, StateKind.AGGREGATING, reader_function, output_type, function)

    def process(
        self,
        uid: str,
        reader_function: WindowReaderFunction,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataFrame:
        """Return the rows of a reader function for each window of `apply(...)` or `process(...)`; it gets all elements.

        See `reduce`; the `output_type` must be given.
        """
        return self._read(uid, StateKind.LIST, reader_function, output_type, None)

    def _read(
        self,
        uid: str,
        kind: StateKind,
        reader_function: WindowReaderFunction | None,
        output_type: TypeInformation | None,
        function: Any,
    ) -> DataFrame:
        snapshot = self._snapshot
        operator = snapshot.operator(uid)
        names = [state.name for state in snapshot.described_states(uid)]
        panes = next((name for name in names if PaneState.of(name) is not None), WINDOW_CONTENTS)
        state = snapshot.keyed_state(uid, panes)
        stored = StateKind.LIST if self._evicting else kind
        if state.kind != stored.value:
            message = f"The windows of operator {uid!r} keep {state.kind} state, not {stored.value}."
            hint = "reduce() reads windows after reduce(...), aggregate() after aggregate(...), process() after the others"
            raise SnapshotError(message, where=snapshot.location.uri, hint=f"{hint}; evictor() in front where there is one")
        namespaces = window_namespaces(self._assigner)
        if state.info.namespace != namespaces.serializer.snapshot():
            message = f"The windows of operator {uid!r} are others than those of {self._assigner!r}."
            raise SnapshotError(message, where=snapshot.location.uri, hint="give window() the job's assigner")
        value_type = StateSchema.from_meta_info(state.info).serializer.type_info
        if output_type is None and kind is StateKind.REDUCING and reader_function is None and not self._evicting:
            output_type = value_type
        if output_type is None:
            message = "What the windows' reader returns needs a type."
            raise SnapshotError(message, hint="give output_type=Types.ROW_NAMED([...], [...])")
        describe = functools.partial(_descriptor, stored, function, value_type)
        contents = _Contents(kind, self._evicting, pickled(describe), pickled(function))
        task = _WindowTask(
            SplitSource.of(snapshot, operator),
            pickled(reader_function or _PassThrough()),
            pickled(self._assigner),
            contents,
            key_type_of(operator),
            output_type,
        )
        splits = keyed_splits(snapshot, operator, None, None, SPLIT_BYTES, tasks_of(self._spark))
        return frame_of(self._spark, splits, RecordCodec(output_type, uid).schema, task)


def _descriptor(stored: StateKind, function: Any, value_type: TypeInformation | None, name: str) -> StateDescriptor:
    if stored is StateKind.REDUCING:
        return ReducingStateDescriptor(name, function, value_type)
    if stored is StateKind.AGGREGATING:
        return AggregatingStateDescriptor(name, function, value_type)
    return ListStateDescriptor(name, value_type)


@dataclass(frozen=True)
class _Contents:
    """The stored contents of windows, and the input of a reader function."""

    kind: StateKind
    evicting: bool
    describe: bytes
    function: bytes

    def elements(self, stored: Any) -> list[Any]:
        """Return the input of a reader function."""
        if not self.evicting:
            return list(stored) if self.kind is StateKind.LIST else [stored]
        values = [value for value, _ in stored]
        if self.kind is StateKind.LIST:
            return values
        function = unpickled(self.function)
        if self.kind is StateKind.AGGREGATING:
            accumulator = function.create_accumulator()
            for value in values:
                accumulator = function.add(value, accumulator)
            return [function.get_result(accumulator)]
        result = values[0]
        for value in values[1:]:
            result = function.reduce(result, value) if isinstance(function, ReduceFunction) else function(result, value)
        return [result]


class _GlobalStates(DescribedStates):
    """The per-key state, for a window's reader."""

    def __init__(self, backend: KeyedStateBackend, where: str) -> None:
        super().__init__(where)
        self._backend = backend

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        return self._backend.get_partitioned_state(state_descriptor)


class _WindowReaderContext(WindowReaderFunction.Context):
    """The context of a reader function; key and window are set by the caller."""

    def __init__(
        self,
        backend: KeyedStateBackend,
        states: WindowStates,
        timers: ReadTimers,
        window_states: PerWindowStateStore | MergingWindowStateStore,
        where: str,
    ) -> None:
        self._states = states
        self._timers = timers
        self._window_states = window_states
        self._global_states = _GlobalStates(backend, where)
        self.address = (b"", b"")
        self._window: Any = None

    def select(self, window: Any, key: bytes) -> None:
        """Set the current key and window; the key is encoded."""
        self._window = self._window_states.window = window
        namespaces = self._states.namespaces
        self.address = key, namespaces.serializer.encode(namespaces.serializer.internal(namespaces.of(window)))

    def window(self) -> Any:
        return self._window

    def trigger_state(self, state_descriptor: StateDescriptor) -> State:
        return self._states.state(state_descriptor, self._window)

    def window_state(self) -> KeyedStateStore:
        return self._window_states

    def global_state(self) -> KeyedStateStore:
        return self._global_states

    def registered_event_time_timers(self) -> list[int]:
        return self._timers.of(TimeDomain.EVENT_TIME, *self.address)

    def registered_processing_time_timers(self) -> list[int]:
        return self._timers.of(TimeDomain.PROCESSING_TIME, *self.address)


@dataclass(frozen=True)
class _WindowTask:
    """Calls a function for the windows of splits."""

    source: SplitSource
    function: bytes
    assigner: bytes
    contents: _Contents
    key_type: TypeInformation | None
    output_type: TypeInformation

    def __call__(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a split."""
        operator = self.source.operator
        codec = RecordCodec(self.output_type, operator.uid)
        function: WindowReaderFunction = unpickled(self.function)
        groups = KeyGroupRange(split.key_groups[0], split.key_groups[-1])
        with (
            self.source.open(split) as (reader, file),
            OfflineKeyedState(
                operator.uid, function, self.key_type, groups, operator.max_parallelism, sources=[file]
            ) as opened,
            closing(self._results(reader, opened.backend, function, split.key_groups)) as results,
        ):
            pending: list[Any] = []
            for result in results:
                pending.append(result)
                if len(pending) >= _FUNCTION_BATCH:
                    yield _encoded(codec, pending)
                    pending = []
            if pending:
                yield _encoded(codec, pending)

    def _results(
        self, reader: CanonicalReader, backend: KeyedStateBackend, function: WindowReaderFunction, groups: tuple[int, ...]
    ) -> Generator[Any, None, None]:
        assigner: WindowAssigner = unpickled(self.assigner)
        namespaces = window_namespaces(assigner)
        states = WindowStates(backend, namespaces)
        describe = unpickled(self.contents.describe)
        handle = states.handle(describe(WINDOW_CONTENTS))
        timers = ReadTimers(reader, WINDOW_TIMERS, namespaces.serializer)
        of_panes: dict[int, dict[bytes, list[Any]]] | None = None
        if shares_panes(backend.state_names()):
            of_panes = _windows_of_panes(backend, states, describe)
            timers = _EndsOfWindows(timers, namespaces)
        where = f"uid {self.source.operator.uid}"
        merging = isinstance(assigner, MergingWindowAssigner)
        store = MergingWindowStateStore(where) if merging else PerWindowStateStore(states, where)
        ctx = _WindowReaderContext(backend, states, timers, store, where)
        for group in groups:
            timers.select(group)
            windows = _windows(reader, namespaces, group) if of_panes is None else of_panes.get(group, {}).items()
            for data, found in windows:
                internal = backend.key_codec.decode(data)
                backend.set_current_key(internal, group)
                of_state_window = _merged(backend, assigner, namespaces)
                for state_window in found:
                    handle.set_current_namespace(namespaces.of(state_window))
                    state: Any = handle.state
                    stored = state.get()
                    window = of_state_window.get(state_window, state_window)
                    ctx.select(window, data)
                    key = backend.key_codec.external(internal)
                    yield from results_of(function.read_window(key, ctx, self.contents.elements(stored)))
            backend.rollback_epoch()  # state that the function read is dropped


def _windows(reader: CanonicalReader, namespaces: WindowNamespaces, group: int) -> Iterator[tuple[bytes, list[Any]]]:
    """Iterate over the encoded keys of a key group, with the windows that have contents."""
    serializer = namespaces.serializer
    found: dict[bytes, dict[bytes, None]] = {}
    for part in reader.parts(WINDOW_CONTENTS):
        for data, sub_key, _ in reader.entries(part, group):
            found.setdefault(data, {})[split_namespace(sub_key)[0]] = None
    for data, written in found.items():
        yield data, [namespaces.window(serializer.external(serializer.decode(one))) for one in written]


def _windows_of_panes(
    backend: KeyedStateBackend, states: WindowStates, describe: Callable[[str], StateDescriptor]
) -> dict[int, dict[bytes, list[Any]]]:
    """Assemble windows from panes; return those of each encoded key, by key group."""
    schema = TimerSchema(WINDOW_TIMERS, TimeDomain.EVENT_TIME, states.namespaces.serializer)
    contents_of_panes(describe, states, backend.get_priority_queue(schema), backend, WINDOW_CONTENTS)
    codec = backend.key_codec
    found: dict[int, dict[bytes, list[Any]]] = {}
    for key, namespace in backend.get_keys_and_namespaces(WINDOW_CONTENTS):
        internal = codec.internal(key)
        of_group = found.setdefault(codec.key_group(internal, backend.max_parallelism), {})
        of_group.setdefault(codec.encode(internal), []).append(states.namespaces.window(namespace))
    return found


class _EndsOfWindows(ReadTimers):
    """The timers of windows that share panes: one per window, at its end, although snapshots have those of panes.

    Args:
        timers: The other timers.
        namespaces: The serializer of windows.
    """

    def __init__(self, timers: ReadTimers, namespaces: WindowNamespaces) -> None:
        self._others = timers
        self._namespaces = namespaces

    @override
    def select(self, key_group: int) -> None:
        self._others.select(key_group)

    @override
    def of(self, domain: TimeDomain, key: bytes, namespace: bytes) -> list[int]:
        if domain is TimeDomain.PROCESSING_TIME:
            return self._others.of(domain, key, namespace)
        serializer = self._namespaces.serializer
        window = self._namespaces.window(serializer.external(serializer.decode(split_namespace(namespace)[0])))
        return [window.max_timestamp()]


def _merged(backend: KeyedStateBackend, assigner: WindowAssigner, namespaces: WindowNamespaces) -> dict[Any, Any]:
    """Return for merging windows a mapping: the window whose namespace has the contents -> the actual window."""
    if not isinstance(assigner, MergingWindowAssigner):
        return {}
    pairs: Any = backend.get_partitioned_state(MergingWindowSet.descriptor(namespaces))
    return {namespaces.window(kept): namespaces.window(window) for window, kept in pairs.items()}


def _encoded(codec: RecordCodec, results: list[Any]) -> pa.RecordBatch:
    prepared = results if codec.prepare is None else [codec.prepare(result) for result in results]
    return pa.RecordBatch.from_arrays(codec.encode(prepared), schema=codec.schema)
