"""The execution of a task: its operators, its keyed state, its output buffers.

An engine drives it with events on its inputs: batches, watermarks, barriers and clock ticks. The chain doesn't know the
senders, nor whether an input has one channel or many that are aligned upstream of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError, JobExecutionError, PystateError
from pystate.common.time import current_time_ms
from pystate.core.api.functions import Function
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.files.compression import snapshot_codec
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import OutputSpec, line_prefix
from pystate.runtime.slot.chain.chain_assigners import ChainAssigners
from pystate.runtime.slot.chain.compiled_chain import compile_chain, partitioners
from pystate.runtime.slot.chain.input_processors import InputProcessors
from pystate.runtime.slot.chain.sorted_keys import SortedKeys
from pystate.runtime.slot.chain.task_watermarks import TaskWatermarks
from pystate.runtime.slot.chain.watermark_rows import OutgoingWatermark
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.failed_record import FailedRecord
from pystate.runtime.slot.failing_records import FailingRecords
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics
from pystate.runtime.slot.operators.contexts import SubtaskRuntimeContext
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.operator_registry import operator_class
from pystate.runtime.slot.output_buffer import OutputBuffer
from pystate.runtime.slot.snapshots.frozen_task import FrozenTask
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.local_backup import local_copies
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

__all__ = ["MIN_WATERMARK", "OperatorChain", "OutputSink", "SubtaskRuntimeContext", "current_time_ms"]

OutputSink = Callable[[OutputSpec, pa.RecordBatch], None]


class OperatorChain:
    """One subtask of a task, without threads, sockets or Spark.

    Args:
        task: The task.
        subtask: The subtask index.
        environment: The job's environment.
        sink: Called with every record batch that leaves the task.
        clock: Returns ms since 1970, for functions and the state's time-to-live.

    Attributes:
        backend: The keyed state, None where the task isn't keyed.
        copies: Keeps local copies of the state on this machine; None for none.
        operators: The operators of the task, the last first, the head last.
        watermarks: The event time of the task.
        assigners: The timestamp assigners inside the task.
        metrics: The metrics of the subtask.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        environment: JobEnvironment,
        sink: OutputSink,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        self.task = task
        self.subtask = subtask
        self.records_in = 0
        self.metrics = TaskMetrics(task)
        self.operators: list[Operator] = []
        self._environment = environment
        self._time = ChainTime(clock, sorted_input=environment.batch)
        self.key_groups = task.key_group_range(subtask)
        self._key_codec: KeyCodec | None = None
        self.backend: KeyedStateBackend | None = None
        if task.key is not None:
            self._key_codec = KeyCodec(task.key.key_type)
            self.backend = create_state_backend(
                environment.state_backend,
                key_codec=self._key_codec,
                key_group_range=self.key_groups,
                max_parallelism=task.max_parallelism,
                working_directory=environment.working_directory,
                configuration=Configuration(environment.configuration),
                clock=clock,
            )
            self.metrics.state_samples = self.backend.metric_samples
        self.copies = local_copies(environment, task.uid, subtask)
        self._keyed = None if self.backend is None else KeyedSnapshots(self.backend, self.copies)
        self._buffers = {
            output.tag: OutputBuffer(output, sink, line_prefix(output.identifier, subtask, task.parallelism), self._time)
            for output in task.outputs
        }
        self.assigners = ChainAssigners(task.chain, self._time)
        self._output = compile_chain(task.chain, self._buffers, self._attach)
        self._head = None if task.head is None else self._operator(task.head, self.backend)
        if self._head is not None:
            self.operators.append(self._head)
        self._opened: list[Function | Operator] = []
        self.failed_record = FailedRecord(self.backend, None if self._head is None else self._head.source)
        self._failing = FailingRecords.of(task, subtask, environment, self.backend, self._head, self._time)
        self._sorted_keys: SortedKeys | None = None
        self.watermarks = TaskWatermarks(task, subtask, self._time)
        if any(read.timestamped for read in task.inputs):
            self.metrics.watermarks = self.watermarks.current

    @property
    def failing_record(self) -> bytes | None:
        """The record at which a function has failed, as a file holds it; None if there is none, or it isn't kept."""
        return None if self._failing is None else self._failing.found

    @property
    def listens(self) -> bool:
        """Whether any function listens for completed checkpoints."""
        return any(operator.listens for operator in self.operators)

    def open(self, restored: Mapping[str, RestoredOperator] | None = None, checkpoint_id: int | None = None) -> None:
        """Restore the state and open the functions, the last of the chain first.

        Args:
            restored: The restored state of this subtask, by operator uid.
            checkpoint_id: The checkpoint that the job starts from, or None.
        """
        old = dict(restored or {})
        if self.copies is not None:
            old = {uid: replace(found, copies=self.copies) for uid, found in old.items()}
        if self._keyed is not None:
            self._keyed.restore(old.get(self.task.uid, RestoredOperator()))
        for function, spec in partitioners(self.task.outputs):
            self._opened.append(function)
            function.open(SubtaskRuntimeContext(spec, self.task, self.subtask, self._environment, None))
        for operator in self.operators:
            operator.initialize_state(old.get(operator.spec.uid, RestoredOperator()), checkpoint_id)
            if operator is self._head:
                self.watermarks.restore(operator.state)
            self._opened.append(operator)
            operator.open()
        for operator in self.operators:
            operator.state.finish_epoch()  # what functions have written so far is the state before the first epoch
        self.metrics.sample_gauges()
        if self.copies is not None:
            self.copies.restored(checkpoint_id, self.task.place_of(self.subtask))
        if self._environment.batch and self._head is not None and self.backend is not None:
            self._sorted_keys = SortedKeys(self._head, self.backend, self._time)
        inputs = InputProcessors(
            self.task, self.subtask, self.key_groups, self.backend, self._key_codec, self._time, self._sorted_keys
        )
        self._process = inputs.make(self._head, self._output)
        if self._head is not None and self._head.source is not None:
            self._head.source.have_times(self.assigners.after_head())

    def close(self) -> None:
        """Close the functions, the head first, and the backend."""
        while self._opened:
            self._opened.pop().close()
        if self.backend is not None:
            self.backend.close()

    def on_batch(self, batch: pa.RecordBatch, input_index: int = 0, size: int | None = None) -> None:
        """Process the rows of a batch of one of the task's inputs.

        Args:
            batch: The rows.
            input_index: The index of the input.
            size: Their bytes, where they are known.

        Raises:
            ControlError: There is no such input, or a row belongs to another subtask.
        """
        self._check_input(input_index)
        if size is None:
            size = batch.nbytes
        if self._failing is not None:
            self._failing.add_rows(batch, input_index)
        with self._keeping(), self.metrics.busy, self.failed_record:
            self._process[input_index](batch)
            if self.backend is not None:
                self.backend.limit_epoch(batch.num_rows, size)
        self.records_in += batch.num_rows
        self.metrics.batch_in(batch.num_rows, size)

    def on_watermark(self, timestamp: int, input_index: int = 0) -> int | None:
        """Process the watermark of an input: no element with an earlier time follows on it. Due timers fire.

        Args:
            timestamp: Event time, ms since 1970.
            input_index: The index of the input.

        Returns:
            The task's own watermark, the lowest of its inputs', if it has advanced; to be sent after the content of the
            output buffers. Otherwise None.
        """
        self._check_input(input_index)
        if self._failing is not None:
            self._failing.add_watermark(timestamp, input_index)
        watermark = self.watermarks.rise(timestamp, input_index)
        if watermark is None:
            return None
        with self._keeping(of_key=False), self.metrics.busy, self.failed_record:
            for operator in reversed(self.operators):  # the head first, in the order of elements
                operator.advance_watermark(watermark)
        return watermark

    def take_watermarks(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Store watermark rows of an input's channels; they take effect with the next `advance_watermarks`."""
        self._check_input(input_index)
        self.watermarks.take(batch, input_index)

    def advance_watermarks(self, *, end_of_input: bool = False, clock: int | None = None, ended: Sequence[str] = ()) -> None:
        """Advance event time to the watermarks of all inputs' channels; at the end of the input to its end.

        Due processing-time timers fire first; at the end of the input they are dropped, as in Flink.

        Args:
            end_of_input: Whether the input has ended.
            clock: The time up to which processing-time timers are due, ms since 1970; None for the subtask's clock.
            ended: Channels of sources that have ended while others continue.
        """
        if self._sorted_keys is not None:
            with self._keeping(of_key=False), self.metrics.busy:
                self._sorted_keys.end()
        due = self.next_processing_time_timer()
        now = self._time.clock() if clock is None else clock
        if due is not None and due <= now and not end_of_input:
            self.on_tick(now)
        for watermark, index in self.watermarks.reached(end_of_input=end_of_input, ended=ended):
            self.on_watermark(watermark, index)
        for operator in reversed(self.operators) if end_of_input else ():
            operator.end_input()

    def watermarks_out(self, *, of_assigners: bool = True) -> Iterator[OutgoingWatermark]:
        """Return the watermarks to send after the content of the output buffers; see `TaskWatermarks.outgoing`."""
        return self.watermarks.outgoing(self.assigners.by_uid, of_assigners=of_assigners)

    def on_tick(self, now: int | None = None) -> None:
        """Do what is due in processing time: fire timers, and flush output buffers that aren't full.

        Args:
            now: The time, ms since 1970; None for the chain's clock.
        """
        now = self._time.clock() if now is None else now
        if self._failing is not None and (due := self.next_processing_time_timer()) is not None and due <= now:
            self._failing.add_clock(now)
        with self._keeping(of_key=False), self.metrics.busy, self.failed_record:
            for operator in reversed(self.operators):
                operator.advance_processing_time(now)
        self.flush_output()

    @property
    def current_watermark(self) -> int:
        """The task's event time, ms since 1970: the lowest watermark of its inputs; initially `MIN_WATERMARK`."""
        return self._time.watermark

    def next_processing_time_timer(self) -> int | None:
        """Return when the first processing-time timer is due, ms since 1970; None if there is none."""
        return None if self._head is None or self._head.timers is None else self._head.timers.next_processing_time()

    def interrupt(self) -> bool:
        """Make an epoch that waits for asynchronous calls fail, from another thread; return whether such calls may exist."""
        return any([operator.interrupt() for operator in self.operators])

    def flush_output(self) -> None:
        """Wait for pending asynchronous calls, and flush the output buffers."""
        with self.metrics.busy:
            with self._keeping(of_key=False):  # of one of all that waited
                for operator in reversed(self.operators):
                    operator.drain()
            for buffer in self._buffers.values():
                buffer.flush()

    def finish_epoch(self) -> None:
        """Commit the epoch's changes to the state, all or none.

        Raises:
            StateError: A value isn't of its state's type; the epoch must be rolled back.
        """
        with self.metrics.busy:
            changes = [change for operator in self.operators for change in operator.finish_epoch()]
            if self.backend is not None:
                self.backend.flush_epoch()
            for change in changes:
                change()
            for operator in self.operators:
                operator.touched = False
            self.watermarks.finish_epoch()
            if self._failing is not None:
                self._failing.clear()

    def roll_back_epoch(self) -> PystateError | None:
        """Discard the epoch's changes and output.

        Returns:
            The error with which the task must fail: the epoch had passed elements to a function that keeps state in its own
                fields, which can't be rolled back. None if everything is as before the epoch.
        """
        for buffer in self._buffers.values():
            buffer.clear()
        if self._failing is not None:
            self._failing.clear()
        self.watermarks.roll_back_epoch()
        if self.backend is not None:
            self.backend.rollback_epoch()
        touched = [operator.spec for operator in self.operators if operator.roll_back_epoch()]
        return _beyond_rollback(touched[-1]) if touched else None

    def on_barrier(self, barrier: CheckpointBarrier) -> FrozenTask:
        """Freeze the state of all operators: it includes everything received so far on all inputs, and nothing later.

        The engine ensures that, and sends the barrier after the content of the output buffers.

        Raises:
            Exception: A function's `snapshot_state` raised it; all state is as a finished epoch or function left it.
        """
        checkpoint_id, shared = barrier.checkpoint_id, barrier.shared_target
        frozen = FrozenTask(compression=snapshot_codec(Configuration(self._environment.configuration)))
        try:
            if self._head is not None:
                self.watermarks.write(self._head.state)
            for operator in self.operators:
                state = operator.snapshot_state(checkpoint_id, barrier.trigger_timestamp, last=barrier.last)
                frozen.operators.append(state)
                if operator.backend is not None and self._keyed is not None:
                    frozen.operators[-1].hold(self._keyed.freeze(checkpoint_id, shared, native=barrier.native))
        except BaseException:
            frozen.release()
            raise
        return frozen

    def checkpoint_ended(self, checkpoint_id: int, *, completed: bool) -> None:
        """Notify the state backend and local copies of the outcome of a checkpoint. May be called from any thread."""
        if self._keyed is not None and not completed:
            self._keyed.checkpoint_failed(checkpoint_id)
        if self.copies is not None:
            self.copies.checkpoint_ended(checkpoint_id, completed=completed)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the functions that a checkpoint is complete."""
        for operator in self.operators:
            operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the functions that a checkpoint was aborted."""
        for operator in self.operators:
            operator.notify_checkpoint_aborted(checkpoint_id)

    def _attach(self, spec: OperatorSpec, output: Output) -> Emit:
        operator = self._operator(spec, None)
        self.operators.append(operator)
        (handle,) = operator.handlers(output)
        if operator.assigner is not None:
            self.assigners.by_uid[spec.uid] = operator.assigner
        return handle

    def _operator(self, spec: OperatorSpec, backend: KeyedStateBackend | None) -> Operator:
        context = SubtaskRuntimeContext(spec, self.task, self.subtask, self._environment, backend)
        self.metrics.operators[spec.uid] = context.metrics
        watermark = self.assigners.watermark_for(spec.uid)
        return operator_class(spec.kind)(spec, context, backend, self.key_groups, self._time, watermark)

    @contextmanager
    def _keeping(self, *, of_key: bool = True) -> Iterator[None]:
        """Keep what a function fails at; `of_key` says whether it was called for the current key."""
        try:
            yield
        except Exception as error:
            if self._failing is not None:
                self._failing.failed(error, of_key=of_key)
            raise

    def _check_input(self, index: int) -> None:
        if not 0 <= index < len(self.task.inputs):
            message = f"Something came for input {index} of a task with {len(self.task.inputs)}."
            raise ControlError(message, where=f"uid {self.task.uid}")


def _beyond_rollback(spec: OperatorSpec) -> PystateError:
    message = (
        f"An epoch was given up after {spec.name!r} had taken a part of it. Its function keeps state in its own fields, "
        "which can't be rolled back, so the job has to go back to its latest checkpoint."
    )
    return JobExecutionError(
        message, where=f"uid {spec.uid}", hint="look for lost Python workers of Spark; keep state in managed state only"
    )
