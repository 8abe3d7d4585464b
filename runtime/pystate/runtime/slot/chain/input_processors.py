"""Connects record batches to a task's head, for each form of input rows; the loops are those of `element_loops`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.errors import ControlError, RecordError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.records.codec import KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec, has_kinds
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.slot.chain.element_loops import KeyedRows, element_loop, keyed_loop, timestamps
from pystate.runtime.slot.chain.sorted_keys import SortedKeys
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, DistinctKeys
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output

ProcessBatch = Callable[[pa.RecordBatch], None]

_FEW = 32
"""So few rows are checked by Python: after a pause NumPy is no longer in a processor's cache."""


class InputProcessors:
    """Creates the reader of each input of a subtask.

    Args:
        task: The task.
        subtask: The subtask index.
        key_groups: The subtask's key groups.
        backend: The keyed state; None if the task isn't keyed.
        key_codec: The codec of its keys; None likewise.
        time: The chain's time.
        sorted_keys: Notified where one key ends and the next begins; None if the input isn't sorted by key.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        key_groups: KeyGroupRange,
        backend: KeyedStateBackend | None,
        key_codec: KeyCodec | None,
        time: ChainTime,
        sorted_keys: SortedKeys | None = None,
    ) -> None:
        self._task = task
        self._subtask = subtask
        self._key_groups = key_groups
        self._backend = backend
        self._key_codec = key_codec
        self._time = time
        self._sorted_keys = sorted_keys

    def make(self, head: Operator | None, output: Output) -> list[ProcessBatch]:
        """Return the functions that process the batches of each input.

        Args:
            head: The task's first operator; None for a task without one.
            output: Receives the elements if there is no head, else the head's results.

        Raises:
            ControlError: The head reads another number of inputs.
        """
        inputs = self._task.inputs
        if head is None:
            return [self._plain_input(read, output.emit) for read in inputs]
        handlers = head.handlers(output, [read.type_info for read in inputs])
        if len(handlers) != len(inputs):
            message = f"{head.spec.name!r} reads {len(handlers)} streams, the task has {len(inputs)}."
            raise ControlError(message, where=f"uid {self._task.uid}")
        process = [
            self._plain_input(read, handle) if read.key is None else self._keyed_input(read, read.key, handle, head)
            for read, handle in zip(inputs, handlers, strict=True)
        ]
        if head.is_broadcast:
            process[0] = self._without_writes(process[0], head)
        return process

    def _plain_input(self, read: TaskInput, handle: Emit) -> ProcessBatch:
        backend, time = self._backend, self._time
        loop = element_loop(RecordCodec(read.type_info, self._task.name).decode, handle, time if read.timestamped else None)

        def process(batch: pa.RecordBatch) -> None:
            if backend is not None:
                backend.key_context.clear()
            loop(batch)

        def process_timestamped(batch: pa.RecordBatch) -> None:
            try:
                process(batch)
            finally:
                time.timestamp = None

        return process_timestamped if read.timestamped else process

    def _keyed_input(self, read: TaskInput, key: KeyColumn, handle: Emit, head: Operator) -> ProcessBatch:
        by_element = self._elements_input(read, key, handle, head)
        columns, is_plain = head.columns, not read.timestamped and self._sorted_keys is None
        if columns is None or (columns.needs_plain and not is_plain):
            return by_element
        return self._columns_input(read, key, head, columns, by_element)

    def _elements_input(self, read: TaskInput, key: KeyColumn, handle: Emit, head: Operator) -> ProcessBatch:
        if self._sorted_keys is not None:
            return self._sorted_input(read, key, handle, self._sorted_keys)
        handle_batch, backend, codec, time = head.process_batch, self._backend, self._key_codec, self._time
        assert backend is not None  # noqa: S101 - the task has a key
        assert codec is not None  # noqa: S101
        rows = KeyedRows(RecordCodec(read.type_info, self._task.name), key, codec, backend, self._check_route)
        if read.timestamped and handle_batch is not None:
            together = handle_batch

            def process_together(batch: pa.RecordBatch) -> None:
                together(*rows.read(batch), timestamps(batch))
                backend.count_records(batch.num_rows)

            return process_together
        loop = keyed_loop(rows, backend.key_context, handle, time if read.timestamped else None)

        def process_keyed(batch: pa.RecordBatch) -> None:
            loop(batch)
            backend.count_records(batch.num_rows)

        def process_timestamped(batch: pa.RecordBatch) -> None:
            try:
                loop(batch)
            finally:
                time.timestamp = None
            backend.count_records(batch.num_rows)

        return process_timestamped if read.timestamped else process_keyed

    def _columns_input(
        self, read: TaskInput, key: KeyColumn, head: Operator, handler: ColumnHandler, by_element: ProcessBatch
    ) -> ProcessBatch:
        backend, codec, sorted_keys = self._backend, self._key_codec, self._sorted_keys
        assert backend is not None  # noqa: S101 - the task has a key
        assert codec is not None  # noqa: S101
        decode_keys, width = key.decoder(codec), len(RecordCodec(read.type_info, self._task.name).schema)
        context, keeps_fields = backend.key_context, head.keeps_fields

        def process_columns(batch: pa.RecordBatch) -> None:
            head.touched |= keeps_fields
            if handler.declines(batch.column(key.column)) or declines_kinds(batch):
                by_element(batch)
                return
            self._check_route(batch.column(KEY_GROUP_FIELD))
            distinct = distinct_of(batch)
            backend.prefetch(*handler.unread(distinct))
            try:
                taken = handler.process(*columns_of(batch), distinct)
            finally:
                context.clear()
            if taken:
                backend.count_records(batch.num_rows)
            else:
                by_element(batch)

        def process_sorted(batch: pa.RecordBatch) -> None:
            assert sorted_keys is not None  # noqa: S101 - checked below
            if declines_kinds(batch):
                by_element(batch)
                return
            self._check_route(batch.column(KEY_GROUP_FIELD))
            head.touched |= keeps_fields
            for part in one_key_each(batch.column(key.column)):
                rows = batch.slice(*part)
                distinct = distinct_of(rows)
                if distinct.internal[0] != context.active_key:
                    sorted_keys.begin(distinct.internal[0], distinct.groups[0])
                handler.process(*columns_of(rows), distinct)
                context.set_current_key(distinct.internal[0], distinct.groups[0])

        def declines_kinds(batch: pa.RecordBatch) -> bool:
            """Whether rows have kinds, which the columns that a handler gets don't show."""
            if not has_kinds(batch):
                return False
            if handler.sees_elements:
                handler.before_elements()
                return True
            message = f"{head.spec.name!r} gets columns, by process_batch, which don't show the kinds of rows."
            raise RecordError(message, hint="leave process_batch out, and process the rows in process_element")

        def distinct_of(batch: pa.RecordBatch) -> DistinctKeys:
            place = batch.schema.get_field_index(key.column)
            field = place if 0 <= place < width else None
            return DistinctKeys(batch.column(key.column), batch.column(KEY_GROUP_FIELD), decode_keys, field)

        def columns_of(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
            times = batch.column(TIMESTAMP_FIELD) if read.timestamped else None
            return batch.select(range(width)), times

        return process_columns if sorted_keys is None else process_sorted

    def _sorted_input(self, read: TaskInput, key: KeyColumn, handle: Emit, sorted_keys: SortedKeys) -> ProcessBatch:
        backend, codec, column, time = self._backend, self._key_codec, key.column, self._time
        assert backend is not None  # noqa: S101 - the task has a key
        assert codec is not None  # noqa: S101
        decode, decode_keys = RecordCodec(read.type_info, self._task.name).decode, key.decoder(codec)
        context, begin = backend.key_context, sorted_keys.begin

        def process_sorted(batch: pa.RecordBatch) -> None:
            key_groups = batch.column(KEY_GROUP_FIELD)
            self._check_route(key_groups)
            keys, groups = decode_keys(batch.column(column)), key_groups.to_pylist()
            times = timestamps(batch) if read.timestamped else [None] * batch.num_rows
            try:
                for current, group, element, timestamp in zip(keys, groups, decode(batch), times, strict=True):
                    if current != context.active_key:
                        begin(current, group)
                    time.timestamp = timestamp
                    handle(element)
            finally:
                time.timestamp = None

        return process_sorted

    def _without_writes(self, process: ProcessBatch, head: Operator) -> ProcessBatch:
        """Forbid writes to broadcast state while a batch of the data stream is processed, also through kept references."""
        state = head.state

        def process_data_side(batch: pa.RecordBatch) -> None:
            state.read_only = True
            try:
                process(batch)
            finally:
                state.read_only = False

        return process_data_side

    def _check_route(self, key_groups: pa.Array) -> None:
        """Reject rows of foreign key groups: state must never be written where it will not be read."""
        ends: tuple[int, ...]
        if len(key_groups) <= _FEW:
            few: list[int] = key_groups.to_pylist()
            ends = (min(few), max(few)) if few else ()
        else:
            groups = np.asarray(key_groups)
            ends = int(groups.min()), int(groups.max())
        for group in ends:
            if group not in self._key_groups:
                message = f"A row of key group {group} reached subtask {self._subtask}, which owns {self._key_groups}."
                raise ControlError(message, where=f"uid {self._task.uid}")


def one_key_each(keys: pa.Array) -> list[tuple[int, int]]:
    """Return (first row, number of rows) of each run of equal keys."""
    runs = pc.run_end_encode(keys).run_ends.to_pylist()
    return [(start, end - start) for start, end in zip([0, *runs], runs, strict=False)]
