"""Keeps what came in the running epoch: what a function fails at can be replayed from the epoch's beginning.

Only with `pystate.debug.keep-failing-records`.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
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
from pystate.runtime.job_folder.failing_record import FailingRecord, KeptStep, RecordOutcome, StepKind
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, ChainTime
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.state_of_keys import TooLargeError, state_of_keys

_STEP_BYTES = 64


@dataclass(frozen=True)
class _Step:
    """A `KeptStep` whose rows aren't bytes yet."""

    kept: KeptStep
    rows: pa.RecordBatch | None = None

    @property
    def size(self) -> int:
        return _STEP_BYTES + (0 if self.rows is None else self.rows.nbytes)


class FailingRecords:
    """What came in the running epoch of one subtask.

    Which row of the last batch a function was called with is found by the replay; so a last batch that is too large isn't
    kept in part.

    Args:
        task: The task.
        subtask: The index of the subtask.
        attempt: The execution attempt.
        backend: The task's keyed state; None if it has none.
        head: The operator at its head.
        time: The chain's time.
        most_bytes: How many bytes of rows are held; of larger epochs the last rows.

    Attributes:
        found: What a function has failed at, as a file holds it; None as long as none has.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        attempt: int,
        backend: KeyedStateBackend | None,
        head: Operator,
        time: ChainTime,
        most_bytes: int,
    ) -> None:
        self._task = task
        self._subtask = subtask
        self._attempt = attempt
        self._backend = backend if isinstance(backend, AbstractKeyedStateBackend) else None
        self._head = head
        self._time = time
        self._most_bytes = most_bytes
        self._steps: deque[_Step] = deque()
        self._watermark = time.watermark
        self._size = 0
        self._whole = True
        self.found: bytes | None = None

    @staticmethod
    def of(
        task: TaskSpec,
        subtask: int,
        environment: JobEnvironment,
        backend: KeyedStateBackend | None,
        head: Operator | None,
        time: ChainTime,
    ) -> FailingRecords | None:
        """Return them as the options say; None if nothing is to be kept, or there is no function at the head of the task."""
        configuration = Configuration(environment.configuration)
        if not configuration.get(PystateOptions.KEEP_FAILING_RECORDS) or head is None or not task.inputs:
            return None
        most_bytes = configuration.get(PystateOptions.FAILING_RECORD_SIZE)
        return FailingRecords(task, subtask, environment.attempt, backend, head, time, most_bytes)

    def add_rows(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Hold the rows of a batch that is about to be processed."""
        self._add(_Step(KeptStep(StepKind.ROWS, self._time.clock(), input_index), batch))

    def add_watermark(self, timestamp: int, input_index: int) -> None:
        """Hold a watermark of an input that is about to be processed."""
        self._add(_Step(KeptStep(StepKind.WATERMARK, self._time.clock(), input_index, time=timestamp)))

    def add_clock(self, now: int) -> None:
        """Hold a time at which processing-time timers are due."""
        self._add(_Step(KeptStep(StepKind.CLOCK, self._time.clock(), time=now)))

    def _add(self, step: _Step) -> None:
        if not self._steps:
            self._watermark = self._time.watermark
        self._steps.append(step)
        self._size += step.size
        while self._size > self._most_bytes and len(self._steps) > 1:
            self._size -= self._steps.popleft().size
            self._whole = False

    def clear(self) -> None:
        """Forget all: the epoch has ended."""
        self._steps.clear()
        self._size, self._whole = 0, True

    def failed(self, error: Exception, *, of_key: bool = True) -> None:
        """Take what came for the key, and its state at the epoch's beginning; the epoch is rolled back.

        Whatever goes wrong here, the job is to fail of what the function has raised.

        Args:
            error: What it raised.
            of_key: Whether it was called for the current key; else what came for all keys is taken.
        """
        if self.found is not None or self._task.head is None or not self._steps:
            return
        try:
            self.found = self._record(error, self._task.head, of_key=of_key)
        except Exception as wrong:  # noqa: BLE001 - of keys, values and serializers of the program
            self.found = self._said(error, self._task.head, f"{type(wrong).__name__}: {wrong}").to_bytes()

    def _record(self, error: Exception, head: OperatorSpec, *, of_key: bool) -> bytes:
        timer = None if self._head.timers is None else self._head.timers.failed
        key: Hashable = NO_KEY
        if self._backend is not None and (of_key or timer is not None):
            key = self._backend.key_context.active_key
        found = [(step.kept, self._of_key(step, key)) for step in self._steps]
        if timer is None and (found[-1][1] is None or not found[-1][1].num_rows):  # the key of a record before is current
            key, found = NO_KEY, [(step.kept, step.rows) for step in self._steps]
        steps = [
            step if rows is None else replace(step, rows=_to_bytes(rows))
            for step, rows in found
            if rows is None or rows.num_rows
        ]
        if timer is not None and self._steps[-1].rows is not None:  # at the end of a key's sorted rows
            now = self._time.clock()
            for index, _ in enumerate(self._task.inputs):
                steps.append(KeptStep(StepKind.WATERMARK, now, index, time=MAX_WATERMARK))
            steps.append(KeptStep(StepKind.CLOCK, now, time=MAX_WATERMARK))
        while len(steps) > 1 and sum(len(step.rows) + _STEP_BYTES for step in steps) > self._most_bytes:
            del steps[0]
            self._whole = False
        size = len(steps[-1].rows)
        if size > self._most_bytes:
            steps, self._whole = [], False
        state, lost = self._state([key] if key is not NO_KEY else self._all_keys())
        return replace(
            self._said(error, head, lost),
            key=None if key is NO_KEY else pickled(self._external(key)),
            state=state,
            steps=steps,
            whole=self._whole,
            timer=None if timer is None else (timer[0].name, timer[1]),
            outcome=RecordOutcome.KEPT if steps else RecordOutcome.TOO_LARGE,
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
            steps=[],
            whole=False,
            watermark=self._watermark,
            outcome=RecordOutcome.UNREADABLE,
            lost=lost,
        )

    def _external(self, key: Hashable) -> Any:
        assert self._backend is not None  # noqa: S101 - there is a key
        return self._backend.key_context.key_codec.external(key)

    def _keys_of(self, step: _Step) -> Iterable[Hashable] | None:
        """Return the internal keys of the rows of a step; None if they have none."""
        column = None if step.rows is None else self._task.inputs[step.kept.input].key
        if step.rows is None or column is None:
            return None
        return column.decoder(KeyCodec(column.key_type))(step.rows.column(column.column))

    def _of_key(self, step: _Step, key: Hashable) -> pa.RecordBatch | None:
        """Return the rows of a step, only those of the key where they have keys; None for a step without rows."""
        keys = None if key is NO_KEY else self._keys_of(step)
        if keys is None or step.rows is None:
            return step.rows
        return step.rows.filter(pa.array([one == key for one in keys], pa.bool_()))

    def _state(self, keys: Iterable[Hashable]) -> tuple[bytes | None, str]:
        """Return the state of some keys as a canonical file, and why it can't be kept."""
        if self._backend is None:
            return None, ""
        self._backend.rollback_epoch()
        try:
            return state_of_keys(self._backend, keys, self._most_bytes), ""
        except TooLargeError:
            return None, ""
        except Exception as wrong:  # noqa: BLE001 - of values and serializers of the program
            return None, f"{type(wrong).__name__}: {wrong}"

    def _broadcast(self, head: OperatorSpec) -> bytes | None:
        if not head.descriptors:
            return None
        states = {one.name: self._head.state.broadcast_state(one).flushed() for one in head.descriptors}
        data = pickled(states)
        return data if len(data) <= self._most_bytes else None

    def _all_keys(self) -> set[Hashable]:
        """Return the internal keys of all rows."""
        return {key for step in self._steps for key in self._keys_of(step) or ()}


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
