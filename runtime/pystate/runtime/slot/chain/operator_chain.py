"""A task at work: its operators, its keyed state, its output buffers.

An engine drives it with events on its inputs: batches, watermarks, barriers, ticks of the clock. It doesn't know who sends
them, nor whether they come through a channel per input or through many that are aligned in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError, JobExecutionError, PystateError
from pystate.common.time import current_time_ms
from pystate.core.api.functions import Function
from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.files.compression import snapshot_codec
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import OutputSpec, line_prefix
from pystate.runtime.slot.chain.chain_assigners import ChainAssigners
from pystate.runtime.slot.chain.compiled_chain import compile_chain, partitioners
from pystate.runtime.slot.chain.input_processors import InputProcessors
from pystate.runtime.slot.chain.sorted_keys import SortedKeys
from pystate.runtime.slot.chain.task_watermarks import TaskWatermarks
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.failed_record import FailedRecord
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics
from pystate.runtime.slot.operators.contexts import SubtaskRuntimeContext
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.output_buffer import OutputBuffer
from pystate.runtime.slot.snapshots.frozen_task import FrozenTask
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.local_backup import local_copies
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

__all__ = ["MIN_WATERMARK", "OperatorChain", "OutputSink", "SubtaskRuntimeContext", "current_time_ms"]

OutputSink = Callable[[OutputSpec, pa.RecordBatch], None]


class OperatorChain:
    """One subtask's share of a task, without threads, sockets or Spark.

    Args:
        task: What to run.
        subtask: Which share.
        environment: The job.
        sink: Called with every record batch that leaves the task.
        clock: The time, ms since 1970, as functions and the state's time to live see it.

    Attributes:
        backend: The keyed state, None where the task isn't keyed.
        copies: Keeps second copies of the state on this machine; None for none.
        operators: Those of the task, the last first, the head last.
        watermarks: How far event time is.
        assigners: What gives elements times in the middle of the task.
        metrics: What is measured of the subtask.
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
        self._sorted_keys: SortedKeys | None = None
        self.watermarks = TaskWatermarks(task, subtask, self._time)
        if any(read.timestamped for read in task.inputs):
            self.metrics.watermarks = self.watermarks.current

    @property
    def listens(self) -> bool:
        """Whether any function wants to know of completed checkpoints."""
        return any(operator.listens for operator in self.operators)

    def open(self, restored: Mapping[str, RestoredOperator] | None = None, checkpoint_id: int | None = None) -> None:
        """Restore the state and open the functions, the last of the chain first.

        Args:
            restored: By operator uid: what there is for this subtask.
            checkpoint_id: The checkpoint the job starts from, None for a start from nothing.
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
            operator.state.finish_epoch()  # what functions wrote by now is where the first epoch begins
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
            self._head.source.have_times(self.assigners.behind_head())

    def close(self) -> None:
        """Close the functions, the head first, and the backend."""
        while self._opened:
            self._opened.pop().close()
        if self.backend is not None:
            self.backend.close()

    def on_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Run the functions over the rows of a batch of one of the task's inputs.

        Raises:
            ControlError: There is no such input, or a row isn't this subtask's.
        """
        self._check_input(input_index)
        size = batch.nbytes
        with self.metrics.busy, self.failed_record:
            self._process[input_index](batch)
            if self.backend is not None:
                self.backend.limit_epoch(batch.num_rows, size)
        self.records_in += batch.num_rows
        self.metrics.batch_in(batch.num_rows, size)

    def on_watermark(self, timestamp: int, input_index: int = 0) -> int | None:
        """Take the watermark of an input: no element of an older time comes on it any more. Timers that are due fire.

        Args:
            timestamp: Event time, ms since 1970.
            input_index: Which input.

        Returns:
            The task's own watermark, the lowest of its inputs', if it has risen: to be handed on behind what the output
            buffers hold. None where it stands.
        """
        self._check_input(input_index)
        watermark = self.watermarks.rise(timestamp, input_index)
        if watermark is None:
            return None
        with self.metrics.busy, self.failed_record:
            for operator in reversed(self.operators):  # the head first, as elements go
                operator.advance_watermark(watermark)
        return watermark

    def take_watermarks(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Take rows that say how far channels of an input are; they count with the next `advance_watermarks`."""
        self._check_input(input_index)
        self.watermarks.take(batch, input_index)

    def advance_watermarks(self, *, end_of_input: bool = False, clock: int | None = None, ended: Sequence[str] = ()) -> None:
        """Let event time go as far as the channels of all inputs are; at the end of the input as far as it goes.

        Timers by the clock that are due fire first; Flink drops them at the end of the input, and so does this.

        Args:
            end_of_input: As said.
            clock: Up to when timers by the clock are due, ms since 1970; None for the subtask's own clock.
            ended: Channels of sources that are at their end beside others that aren't.
        """
        if self._sorted_keys is not None:
            with self.metrics.busy:
                self._sorted_keys.end()
        due = self.next_processing_time_timer()
        now = self._time.clock() if clock is None else clock
        if due is not None and due <= now and not end_of_input:
            self.on_tick(now)
        for watermark, index in self.watermarks.reached(end_of_input=end_of_input, ended=ended):
            self.on_watermark(watermark, index)
        for operator in reversed(self.operators) if end_of_input else ():
            operator.end_input()

    def watermarks_out(self, *, of_assigners: bool = True) -> Iterator[tuple[OutputSpec, pa.RecordBatch]]:
        """Return the watermarks for the next tasks, behind what the output buffers held; see `TaskWatermarks.rows_out`."""
        return self.watermarks.rows_out(self.assigners.by_uid, of_assigners=of_assigners)

    def on_tick(self, now: int | None = None) -> None:
        """Do what is due by the clock: timers fire, and rows don't wait in an output buffer until it is full.

        Args:
            now: The time, ms since 1970; None for that of the chain's clock.
        """
        now = self._time.clock() if now is None else now
        with self.metrics.busy, self.failed_record:
            for operator in reversed(self.operators):
                operator.advance_processing_time(now)
        self.flush_output()

    @property
    def current_watermark(self) -> int:
        """The task's event time, ms since 1970: the lowest watermark of its inputs; `MIN_WATERMARK` in the beginning."""
        return self._time.watermark

    def next_processing_time_timer(self) -> int | None:
        """Return when the first timer by the clock is due, ms since 1970; None where there is none."""
        return None if self._head is None or self._head.timers is None else self._head.timers.next_processing_time()

    def interrupt(self) -> bool:
        """Let an epoch that waits for calls under way fail, from another thread; return whether there may be such."""
        return any([operator.interrupt() for operator in self.operators])

    def flush_output(self) -> None:
        """Wait for calls under way, and hand on what the output buffers still hold."""
        with self.metrics.busy:
            for operator in reversed(self.operators):
                operator.drain()
            for buffer in self._buffers.values():
                buffer.flush()

    def finish_epoch(self) -> None:
        """Make the epoch's changes part of the state, all or none.

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

    def roll_back_epoch(self) -> PystateError | None:
        """Forget the epoch's changes and output.

        Returns:
            What the task must fail of: the epoch had handed elements to a function that keeps state in its own fields,
            which can't be rolled back. None where all is as it was before the epoch.
        """
        for buffer in self._buffers.values():
            buffer.clear()
        self.watermarks.roll_back_epoch()
        if self.backend is not None:
            self.backend.rollback_epoch()
        touched = [operator.spec for operator in self.operators if operator.roll_back_epoch()]
        return _beyond_rollback(touched[-1]) if touched else None

    def on_barrier(self, barrier: CheckpointBarrier) -> FrozenTask:
        """Freeze the state of all operators: what has come on every input counts, nothing that comes later does.

        The engine has seen to that, and hands the barrier on behind what the output buffers hold.

        Raises:
            Exception: What a function's `snapshot_state` raised; all state is as a finished epoch or function left it.
        """
        checkpoint_id, shared = barrier.checkpoint_id, barrier.shared_target
        frozen = FrozenTask(compression=snapshot_codec(Configuration(self._environment.configuration)))
        try:
            if self._head is not None:
                self.watermarks.write(self._head.state)
            for operator in self.operators:
                frozen.operators.append(operator.snapshot_state(checkpoint_id, barrier.trigger_timestamp))
                if operator.backend is not None and self._keyed is not None:
                    frozen.operators[-1].hold(self._keyed.freeze(checkpoint_id, shared, native=barrier.native))
        except BaseException:
            frozen.release()
            raise
        return frozen

    def checkpoint_ended(self, checkpoint_id: int, *, completed: bool) -> None:
        """Let the state backend and local copies know what became of a checkpoint. May be called from any thread."""
        if self._keyed is not None and not completed:
            self._keyed.checkpoint_failed(checkpoint_id)
        if self.copies is not None:
            self.copies.checkpoint_ended(checkpoint_id, completed=completed)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the functions that a checkpoint is complete."""
        for operator in self.operators:
            operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the functions that a checkpoint was given up."""
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
        return Operator(spec, context, backend, self.key_groups, self._time, self.assigners.watermark_for(spec.uid))

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
