"""Keeps the rows of the running epoch: a record at which a function fails can be replayed from the epoch's beginning.

Only with `pystate.debug.keep-failing-records`.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.time import current_time_ms
from pystate.common.user_code.program_classes import pickled
from pystate.common.user_code.user_errors import error_sentence
from pystate.core.state.base.abstract_backend import AbstractKeyedStateBackend
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.key_context import NO_KEY
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.runtime.job_folder.failing_record import FailingRecord, RecordOutcome
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.operators.operator import Operator


class FailingRecords:
    """The rows of the running epoch of one subtask.

    Which row of the last batch a function was called with is found by the replay; so a last batch that is too large isn't
    kept in part.

    Args:
        task: The task.
        subtask: The index of the subtask.
        attempt: The execution attempt.
        backend: The task's keyed state; None if it has none.
        operator_state: That of the operator at its head.
        most_bytes: How many bytes of rows are held; of larger epochs the last rows.

    Attributes:
        found: The record at which a function has failed, as a file holds it; None as long as none has.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        attempt: int,
        backend: KeyedStateBackend | None,
        operator_state: OperatorStateBackend,
        most_bytes: int,
    ) -> None:
        self._task = task
        self._subtask = subtask
        self._attempt = attempt
        self._backend = backend if isinstance(backend, AbstractKeyedStateBackend) else None
        self._operator_state = operator_state
        self._most_bytes = most_bytes
        self._batches: deque[tuple[int, pa.RecordBatch]] = deque()
        self._size = 0
        self._whole = True
        self.found: bytes | None = None

    @staticmethod
    def of(
        task: TaskSpec, subtask: int, environment: JobEnvironment, backend: KeyedStateBackend | None, head: Operator | None
    ) -> FailingRecords | None:
        """Return them as the options say; None if nothing is to be kept, or there is no function at the head of the task."""
        configuration = Configuration(environment.configuration)
        if not configuration.get(PystateOptions.KEEP_FAILING_RECORDS) or head is None or not task.inputs:
            return None
        most_bytes = configuration.get(PystateOptions.FAILING_RECORD_SIZE)
        return FailingRecords(task, subtask, environment.attempt, backend, head.state, most_bytes)

    def add(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Hold the rows of a batch that is about to be processed."""
        self._batches.append((input_index, batch))
        self._size += batch.nbytes
        while self._size > self._most_bytes and len(self._batches) > 1:
            self._size -= self._batches.popleft()[1].nbytes
            self._whole = False

    def clear(self) -> None:
        """Forget the rows: the epoch has ended."""
        self._batches.clear()
        self._size, self._whole = 0, True

    def failed(self, error: Exception, *, of_key: bool = True) -> None:
        """Take the key's rows and its state at the epoch's beginning; the epoch is rolled back.

        Whatever goes wrong here, the job is to fail of what the function has raised.

        Args:
            error: What it raised.
            of_key: Whether it was called with an element of the current key; else the rows of all keys are taken.
        """
        if self.found is not None or self._task.head is None or not self._batches:
            return
        try:
            self.found = self._record(error, self._task.head, of_key=of_key)
        except Exception as wrong:  # noqa: BLE001 - of keys, values and serializers of the program
            self.found = self._said(error, self._task.head, f"{type(wrong).__name__}: {wrong}").to_bytes()

    def _record(self, error: Exception, head: OperatorSpec, *, of_key: bool) -> bytes:
        key = NO_KEY if self._backend is None or not of_key else self._backend.key_context.active_key
        batches = [(number, _of_key(self._task, number, batch, key)) for number, batch in self._batches]
        if not batches or not batches[-1][1].num_rows:  # the current key is that of a record before
            key, batches = NO_KEY, list(self._batches)
        rows = [(number, _to_bytes(batch)) for number, batch in batches if batch.num_rows]
        while len(rows) > 1 and sum(len(data) for _, data in rows) > self._most_bytes:
            del rows[0]
            self._whole = False
        size = len(rows[-1][1])
        if size > self._most_bytes:
            rows, self._whole = [], False
        state, lost = self._state(key)
        return replace(
            self._said(error, head, lost),
            key=None if key is NO_KEY else pickled(self._external(key)),
            state=state,
            batches=rows,
            whole=self._whole,
            outcome=RecordOutcome.KEPT if rows else RecordOutcome.TOO_LARGE,
            size=size,
            broadcast=self._broadcast(head),
        ).to_bytes()

    def _said(self, error: Exception, head: OperatorSpec, lost: str) -> FailingRecord:
        """Return what is known of a failure without what the function was called with."""
        return FailingRecord(
            uid=head.uid,
            operator=head.name,
            subtask=self._subtask,
            parallelism=self._task.parallelism,
            max_parallelism=self._task.max_parallelism,
            attempt=self._attempt,
            time_ms=current_time_ms(),
            error=error_sentence(error),
            key=None,
            state=None,
            batches=[],
            whole=False,
            outcome=RecordOutcome.UNREADABLE,
            lost=lost,
        )

    def _external(self, key: Hashable) -> Any:
        assert self._backend is not None  # noqa: S101 - there is a key
        return self._backend.key_context.key_codec.external(key)

    def _state(self, key: Hashable) -> tuple[bytes | None, str]:
        """Return the state of a key, and why it can't be kept."""
        if key is NO_KEY or self._backend is None:
            return None, ""
        self._backend.rollback_epoch()
        try:
            data = pickled(self._backend.values_of_key(self._external(key)))
        except Exception as wrong:  # noqa: BLE001 - of values and serializers of the program
            return None, f"{type(wrong).__name__}: {wrong}"
        return (data, "") if len(data) <= self._most_bytes else (None, "")

    def _broadcast(self, head: OperatorSpec) -> bytes | None:
        if not head.descriptors:
            return None
        states = {one.name: self._operator_state.broadcast_state(one).flushed() for one in head.descriptors}
        data = pickled(states)
        return data if len(data) <= self._most_bytes else None


def _of_key(task: TaskSpec, number: int, batch: pa.RecordBatch, key: Hashable) -> pa.RecordBatch:
    column = task.inputs[number].key
    if key is NO_KEY or column is None:
        return batch
    keys = column.decoder(KeyCodec(column.key_type))(batch.column(column.column))
    return batch.filter(pa.array([one == key for one in keys], pa.bool_()))


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
