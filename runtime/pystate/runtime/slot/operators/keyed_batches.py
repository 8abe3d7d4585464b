"""Handlers for functions after key_by() that process batches: `process_batch`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.errors import RecordError, StateError
from pystate.common.row import Row
from pystate.common.text.bounded_text import bounded_text
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.keyed_batch import KeyedBatch
from pystate.core.api.state import ValueState
from pystate.core.records.codec import RecordCodec
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.derived_states import DefaultValueState
from pystate.core.state.kinds.value_states import MutableValueState, OverlayValueState
from pystate.core.state.ttl.ttl_value_state import TtlValueState
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.operator_output import Output

if TYPE_CHECKING:
    import pandas as pd


def takes_batches(function: Any) -> bool:
    """Return whether a function defines its own `process_batch`."""
    return (
        isinstance(function, KeyedProcessFunction) and type(function).process_batch is not KeyedProcessFunction.process_batch
    )


class DistinctKeys:
    """The distinct keys of a batch.

    Args:
        column: The key of each row.
        key_groups: The key group of each row.
        decode: Converts keys of a column to internal keys.
        field: The index of the key's column among those of the elements; None if it is none of them.

    Attributes:
        internal: The internal keys, in the order of their first rows.
        groups: Their key groups.
        index: For each row the index of its key.
        rows: The same as a numpy array.
        first: The first row of each key.
        field: The given field, if equal keys of rows are identical there; else None.
    """

    __slots__ = ("field", "first", "groups", "index", "internal", "rows")

    def __init__(
        self,
        column: pa.Array,
        key_groups: pa.Array,
        decode: Callable[[pa.Array], Sequence[Hashable]],
        field: int | None = None,
    ) -> None:
        encoded = column.dictionary_encode(null_encoding="encode")
        internal = list(decode(encoded.dictionary))
        index = encoded.indices
        is_exact = _is_exact(column.type)
        places: dict[Hashable, int] = {}
        for key in () if is_exact else internal:
            places.setdefault(key, len(places))
        if places and len(places) < len(internal):  # one key with several values in Arrow, such as 0.0 and -0.0
            index = pa.array([places[key] for key in internal], pa.int32()).take(index)
            internal = list(places)
        self.internal = internal
        self.index = index
        self.rows: npt.NDArray[np.int32] = index.to_numpy()
        self.first: npt.NDArray[np.int64] = np.empty(len(internal), np.int64)
        self.first[self.rows[::-1]] = np.arange(len(self.rows) - 1, -1, -1)  # the last one written stays
        self.groups = key_groups.to_numpy()[self.first].tolist()
        self.field = field if is_exact else None


_FEW_ROWS = 1_000
"""Smaller batches are not sampled: a sample that tells something would be a good part of them."""
_SIZES = 256
"""Row counts are rounded down to multiples of this, so that few samples are made."""


def seem_different(keys: pa.Array) -> bool:
    """Return whether most keys of a batch are different, as far as a sample tells; False where that isn't certain.

    Of a batch in which 7 of 10 keys are different the sample has six pairs of equal ones, whatever the size: with at most
    one pair, more keys are different.
    """
    count = len(keys)
    if count < _FEW_ROWS:
        return False
    rows = _sample(count // _SIZES * _SIZES)
    return len(rows) - len(keys.take(rows).unique()) <= 1


@lru_cache(maxsize=64)
def _sample(count: int) -> pa.Array:
    """Return some of that many rows; their number grows with the root of the count, as that of their pairs with the count.

    They are chosen at random: neither runs of equal keys nor keys that take turns look otherwise than they are.
    """
    rows = np.random.default_rng(count).choice(count, int(4 * count**0.5), replace=False)
    return pa.array(rows)


def _is_exact(arrow_type: pa.DataType) -> bool:
    """Return whether equal keys are identical: 0.0 and -0.0 aren't."""
    types = pa.types
    return bool(types.is_string(arrow_type) or types.is_binary(arrow_type) or types.is_integer(arrow_type))


class SlotKeyedBatch(KeyedBatch):
    """A batch in its slot.

    Args:
        data: The columns of the elements.
        distinct: Its keys.
        timestamps: The timestamps of the elements; None if they have none.
        backend: The state backend.
    """

    def __init__(
        self, data: pa.RecordBatch, distinct: DistinctKeys, timestamps: pa.Array | None, backend: KeyedStateBackend
    ) -> None:
        self.data = data
        self.keys = list(map(backend.key_codec.external, distinct.internal))
        self.key_index = distinct.index
        self.timestamps = timestamps
        self._distinct = distinct
        self._backend = backend

    def get(self, state: ValueState[Any]) -> list[Any]:
        """Return the value of a state for each key."""
        _check_kind(state)
        if isinstance(state, OverlayValueState):
            return held_values(state, self._distinct)
        found = []
        with self._any_key():
            for position in range(len(self.keys)):
                self.set_current_key(position)
                found.append(state.value())
        return found

    def update(self, state: ValueState[Any], values: Iterable[Any]) -> None:
        """Set a state for each key."""
        _check_kind(state)
        new = list(values)
        if len(new) != len(self.keys):
            message = f"There are {len(new)} values for {len(self.keys)} keys."
            raise StateError(message, hint="give one for each of batch.keys; None removes")
        if isinstance(state, OverlayValueState | TtlValueState | DefaultValueState):
            checked = state.checked  # of all values, before the first is set: the function may catch the error and continue
            new = [None if value is None else checked(value) for value in new]
        if isinstance(state, OverlayValueState):
            state.hold_all(self._distinct.internal, self._distinct.groups, new)
            return
        with self._any_key():
            for position, value in enumerate(new):
                self.set_current_key(position)
                state.update(value)

    @contextmanager
    def _any_key(self) -> Iterator[None]:
        """Allow other keys to become current for a while."""
        context = self._backend.key_context
        key, key_group = context.active_key, context.active_key_group
        try:
            yield
        finally:
            context.set_current_key(key, key_group)

    def set_current_key(self, position: int) -> None:
        """Make the key at a position current."""
        if position < 0:
            raise IndexError(position)
        self._backend.set_current_key(self._distinct.internal[position], self._distinct.groups[position])

    def rows_by_key(self) -> list[list[int]]:
        """Return the rows of each key."""
        rows: list[list[int]] = [[] for _ in self.keys]
        for row, place in enumerate(self.key_index.to_pylist()):
            rows[place].append(row)
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Return the elements as a DataFrame."""
        return self.data.to_pandas()


def _check_kind(state: Any) -> None:
    """Check that a state has one value per key.

    Raises:
        StateError: It is another kind of state.
    """
    if not isinstance(state, ValueState):
        message = f"batch.get and batch.update take a ValueState, not {bounded_text(repr(state))}."
        raise StateError(message, hint="make each key current by batch.set_current_key(position), and use the state itself")


def held_values(state: OverlayValueState, distinct: DistinctKeys) -> list[Any]:
    """Return the value of a state for each key; None for none."""
    keys, groups = distinct.internal, distinct.groups
    found = state.read_all(keys, groups)
    if isinstance(state, MutableValueState):  # user code may modify in place what the epoch hasn't modified yet
        overlay = state.overlay
        new = [place for place, value in enumerate(found) if value is not None and keys[place] not in overlay]
        state.hold_all([keys[place] for place in new], [groups[place] for place in new], [found[place] for place in new])
    return found


class ColumnHandler(Protocol):
    """Processes whole batches as columns, where these give exactly what their elements would one by one.

    Attributes:
        needs_plain: Whether elements with timestamps, and input sorted by key, are processed one by one.
        sees_elements: Whether any batch can be processed one by one.
    """

    needs_plain: ClassVar[bool]
    sees_elements: ClassVar[bool] = True

    def declines(self, keys: pa.Array) -> bool:
        """Return whether a batch must be processed one by one, by the column of its keys, before these are decoded."""
        return False

    def before_elements(self) -> None:
        """Write what is held back of earlier batches to the state: a batch follows that isn't offered to `process`."""
        return  # most hold nothing back

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> bool:
        """Process a batch, or return False for one whose elements must be processed one by one.

        The current key afterwards is undefined.

        Args:
            data: The columns of the elements.
            timestamps: The timestamps of the elements; None if they have none.
            distinct: Its keys.
        """

    def unread(self, distinct: DistinctKeys) -> tuple[Sequence[Hashable], Sequence[int]]:
        """Return those keys of a batch whose state will be read, and their key groups."""
        return distinct.internal, distinct.groups


class KeyedBatchHandler(ColumnHandler):
    """Calls `process_batch`, and emits its results.

    Args:
        call: The function's `process_batch`.
        context: The context of its calls.
        backend: The state backend.
        time: The chain's time.
        output: Receives the results.
        columns: Receives results that are columns.
    """

    needs_plain: ClassVar = False
    sees_elements: ClassVar = False

    def __init__(
        self,
        call: Callable[[KeyedBatch, Any], Any],
        context: Any,
        backend: KeyedStateBackend,
        time: ChainTime,
        output: Output,
        columns: ColumnOutput,
    ) -> None:
        self._call = call
        self._context = context
        self._backend = backend
        self._time = time
        self._output = output
        self._columns = columns

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> bool:
        """See `ColumnHandler.process`; it takes every batch."""
        backend, time = self._backend, self._time
        time.timestamp = None if timestamps is None else pc.max(timestamps).as_py()
        try:
            results = self._call(SlotKeyedBatch(data, distinct, timestamps, backend), self._context)
            if results is None:
                return True
            batches = _record_batches(results)
            if batches is None:
                if not isinstance(results, Iterable):
                    message = f"process_batch returned {bounded_text(repr(results))}, which is neither columns nor elements."
                    hint = "return an Arrow table, a DataFrame, a list of elements, or None"
                    raise RecordError(message, where=self._columns.where, hint=hint)
                for result in results:
                    self._output.collect(result)
                return True
            for batch in batches:
                self._columns.emit(batch, time.timestamp)
            return True
        finally:
            time.timestamp = None


def of_type(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return a column cast to a type; itself where it has that: a cast would be looked up and called all the same."""
    return column if column.type == arrow_type else column.cast(arrow_type)


class ColumnOutput:
    """Emits columns: unchanged if only outputs follow, else as elements.

    Args:
        output: The operator's output.
        type_info: The type of the results; None for untyped ones, which become rows.
        where: The operator's name in errors.

    Attributes:
        where: The operator's name in errors.
    """

    def __init__(self, output: Output, type_info: TypeInformation | None, where: str) -> None:
        self._output = output
        self.where = where
        self._codec = None if type_info is None else RecordCodec(type_info, where)

    def emit(self, batch: pa.RecordBatch, timestamp: int | None) -> None:
        """Emit the rows of a batch.

        Args:
            batch: The results.
            timestamp: Their timestamp, ms since 1970; None for none.

        Raises:
            RecordError: A column is missing, or can't be converted to its type.
        """
        codec, buffers = self._codec, self._output.buffers
        if codec is None:
            names = tuple(batch.schema.names)
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._output.emit(Row.of_fields(names, list(values)))
            return
        arrays = self._columns_of(batch, codec)
        if buffers is not None and all(buffer.takes_columns for buffer in buffers):
            for buffer in buffers:
                buffer.append_columns(arrays, timestamp)
            return
        for element in codec.decode(pa.RecordBatch.from_arrays(arrays, schema=codec.schema)):
            self._output.emit(element)

    def _columns_of(self, batch: pa.RecordBatch, codec: RecordCodec) -> list[pa.Array]:
        """Return the columns in the order and types of the elements."""
        columns = []
        for field in codec.schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                message = f"A result of process_batch has no column {field.name!r}; it has {batch.schema.names}."
                raise RecordError(message, where=self.where, hint="name a column for each field of the output_type")
            column = batch.column(place)
            try:
                columns.append(of_type(column, field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                message = f"Column {field.name!r} of a result of process_batch is {column.type}, not {field.type}: {error}"
                raise RecordError(
                    bounded_text(message), where=self.where, hint="declare the right output_type, or cast the column"
                ) from error
        return columns


def _record_batches(results: Any) -> Sequence[pa.RecordBatch] | None:
    """Return columnar results as record batches; None if they are elements."""
    if isinstance(results, pa.RecordBatch):
        return [results]
    if type(results).__module__.partition(".")[0] == "pandas":  # pandas is not imported if no function uses it
        results = pa.Table.from_pandas(results, preserve_index=False)
    if isinstance(results, pa.Table):
        batches: Sequence[pa.RecordBatch] = results.to_batches()
        return batches
    return None
