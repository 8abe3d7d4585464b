"""From record batches to calls of a task's head: elements are decoded, and the current key is set for each."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.errors import ControlError
from pystate.common.key_groups import KeyGroupRange
from pystate.plan.task import TaskInput, TaskSpec
from pystate.records.codec import KEY_GROUP_FIELD, RecordCodec
from pystate.records.key_column import KeyColumn
from pystate.slot.operators.one_input import Emit
from pystate.slot.operators.operator import Operator
from pystate.state.base.backend import KeyedStateBackend
from pystate.state.base.key_context import NO_KEY
from pystate.state.base.keys import KeyCodec

ProcessBatch = Callable[[pa.RecordBatch], None]


class InputProcessors:
    """Makes what reads each input of a subtask.

    Args:
        task: What it runs.
        subtask: Which share.
        key_groups: Those that are its own.
        backend: The keyed state; None where the task isn't keyed.
        key_codec: Knows its keys; None as well.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        key_groups: KeyGroupRange,
        backend: KeyedStateBackend | None,
        key_codec: KeyCodec | None,
    ) -> None:
        self._task = task
        self._subtask = subtask
        self._key_groups = key_groups
        self._backend = backend
        self._key_codec = key_codec

    def make(self, head: Operator | None, emit: Emit) -> list[ProcessBatch]:
        """Return what is called with the batches of each input.

        Args:
            head: The task's first operator; None for a task without one.
            emit: Takes the elements where there is none, else what it gives out.

        Raises:
            ControlError: The head reads another number of streams.
        """
        inputs = self._task.inputs
        if head is None:
            return [self._plain_input(read, emit) for read in inputs]
        handlers = head.handlers(emit, inputs[0].type_info)
        if len(handlers) != len(inputs):
            message = f"{head.spec.name!r} reads {len(handlers)} streams, the task has {len(inputs)}."
            raise ControlError(message, where=f"uid {self._task.uid}")
        process = [
            self._plain_input(read, handle) if read.key is None else self._keyed_input(read, read.key, handle)
            for read, handle in zip(inputs, handlers, strict=True)
        ]
        if head.is_broadcast:
            process[0] = self._without_writes(process[0], head)
        return process

    def _plain_input(self, read: TaskInput, handle: Emit) -> ProcessBatch:
        decode, backend = RecordCodec(read.type_info, self._task.name).decode, self._backend

        def process_plain(batch: pa.RecordBatch) -> None:
            if backend is not None:
                backend.set_current_key(NO_KEY, -1)
            for element in decode(batch):
                handle(element)

        return process_plain

    def _keyed_input(self, read: TaskInput, key: KeyColumn, handle: Emit) -> ProcessBatch:
        backend, codec, column = self._backend, self._key_codec, key.column
        assert backend is not None  # noqa: S101 - the task has a key
        assert codec is not None  # noqa: S101
        decode, decode_keys = RecordCodec(read.type_info, self._task.name).decode, key.decoder(codec, self._task.name)
        context = backend.key_context

        def process_keyed(batch: pa.RecordBatch) -> None:
            key_groups = batch.column(KEY_GROUP_FIELD)
            self._check_route(key_groups)
            keys = decode_keys(batch.column(column))
            groups = key_groups.to_pylist()
            backend.prefetch(keys, groups)
            for current, group, element in zip(keys, groups, decode(batch), strict=True):
                context.active_key = current  # as set_current_key does; calling that takes as long as reading a state
                context.active_key_group = group
                handle(element)
            backend.count_records(batch.num_rows)

        return process_keyed

    def _without_writes(self, process: ProcessBatch, head: Operator) -> ProcessBatch:
        """Forbid writes to broadcast state while a batch of the data stream is processed, also through kept objects."""
        state = head.state

        def process_data_side(batch: pa.RecordBatch) -> None:
            state.read_only = True
            try:
                process(batch)
            finally:
                state.read_only = False

        return process_data_side

    def _check_route(self, key_groups: pa.Array) -> None:
        """Refuse rows of foreign key groups: state must never be written where nobody will look for it."""
        bounds = pc.min_max(key_groups).as_py()
        for group in (bounds["min"], bounds["max"]):
            if group is not None and group not in self._key_groups:
                message = f"A row of key group {group} reached subtask {self._subtask}, which owns {self._key_groups}."
                raise ControlError(message, where=f"uid {self._task.uid}")
