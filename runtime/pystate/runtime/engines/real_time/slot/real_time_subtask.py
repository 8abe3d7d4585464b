"""A subtask with its own thread, fed through channels with elements and barriers.

    input gate, or source --> thread: slices of batches, watermarks, barriers --> record writer
                                ^
                             mailbox: requests of the driver, outcomes of checkpoints

Nothing is rolled back here: changes since the last checkpoint are lost with the attempt, and the elements are replayed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError, PystateError
from pystate.common.time import current_time_ms
from pystate.core.records.codec import KEY_GROUP_FIELD, KIND_COLUMN
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.batch_slices import BatchSlices
from pystate.runtime.engines.real_time.slot.change_flush import FLUSH_S, ChangeFlush
from pystate.runtime.engines.real_time.slot.due_times import DueTimes, earliest
from pystate.runtime.engines.real_time.slot.ending_checkpoint import EndingCheckpoint
from pystate.runtime.engines.real_time.slot.frames import Frame, FrameKind, remainder_of
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input_checkpoints import InputCheckpoints, restore_in_flight
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.engines.real_time.slot.output.output_flush_interval import ENOUGH_BYTES, OutputFlushInterval
from pystate.runtime.engines.real_time.slot.output.output_pause import OutputPause
from pystate.runtime.engines.real_time.slot.output.record_writer import RecordWriter
from pystate.runtime.engines.real_time.slot.output.subtask_output import RealTimeGateway, SubtaskOutput
from pystate.runtime.plan.channels import TaskChannels
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import WATERMARK_SCHEMA, OutputSpec
from pystate.runtime.slot.operators.source_input import SourceInput
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask import Subtask, SubtaskGateway
from pystate.runtime.slot.subtask_checkpoints import Alignment, Upload

MOST_ROWS_AT_ONCE = 10_000
"""The most that a source reads between two checks of its mailbox."""
NOTIFY_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0


class RealTimeSubtask(Subtask):
    """One subtask of a task in its slot.

    Args:
        task: The task to run.
        index: The subtask index.
        environment: The job's environment.
        gateway: Reports to the driver what every kind of subtask reports.
        driver: Reports the rest to the driver.
        upload: Runs the asynchronous part of a snapshot on another thread.
        mailbox: The subtask's mailbox.
        gate: Its input; None for a source.
        writer: Its output to other subtasks.
        channels: The channels of the task's inputs.
    """

    def __init__(
        self,
        task: TaskSpec,
        index: int,
        environment: JobEnvironment,
        gateway: SubtaskGateway,
        driver: RealTimeGateway,
        upload: Upload,
        mailbox: TaskMailbox,
        gate: InputGate | None,
        writer: RecordWriter,
        channels: TaskChannels,
    ) -> None:
        super().__init__(task, index, environment, gateway, upload, self._write)
        self._driver = driver
        self._mailbox = mailbox
        self._gate = gate
        configuration = Configuration(environment.configuration)
        self._interval = OutputFlushInterval.of(configuration)
        pause = OutputPause(InputSettings.of(configuration), self._interval)
        self._output = SubtaskOutput(task.uid, index, writer, driver, pause)
        self._ending = EndingCheckpoint()
        self._input = None if gate is None else InputCheckpoints(gate, self._output, self._settle, self._ending)
        self._schemas = {number: pa.ipc.read_schema(pa.py_buffer(schema)) for number, schema in channels.schemas.items()}
        self._schemas_of_changes = {number: _with_kinds(schema) for number, schema in self._schemas.items()}
        self._thread: threading.Thread | None = None
        self._open_channels = set(range(len(channels.upstream)))
        self._at_end = False
        self._slices = BatchSlices()
        self._changes = ChangeFlush(self.chain, self.versions)
        self._due = DueTimes(self.chain, configuration)
        self._is_dirty = False  # elements have been processed since results were last sent

    @property
    def source(self) -> SourceInput | None:
        """The input of the task's head, if it is a source; None otherwise."""
        return self.chain.operators[-1].source if self.chain.operators else None

    def open(
        self,
        restored: Mapping[str, RestoredOperator] | None = None,
        checkpoint_id: int | None = None,
        checkpoint_timestamp: int | None = None,
    ) -> None:
        """Restore the state and open the functions; connect a source to the driver."""
        super().open(restored, checkpoint_id, checkpoint_timestamp)
        self._output.last_barrier = checkpoint_id or 0
        self._changes.begin(checkpoint_id, checkpoint_timestamp)
        if self._gate is not None and restored and self.task.uid in restored:
            restore_in_flight(self._gate, restored[self.task.uid], self.task.uid)
        source = self.source
        if source is not None:
            source.bound(MOST_ROWS_AT_ONCE, ENOUGH_BYTES)
            source.ends_apart = True
            source.connect(partial(self._driver.source_messages, self.task.uid, self.index), self._mailbox.notify)

    def start(self) -> None:
        """Start the thread."""
        self.chain.metrics.begin_stream()
        self._thread = threading.Thread(target=self._run, name="task", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, then close functions and backend."""
        self._mailbox.close()
        self.chain.interrupt()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
        if self._input is not None:
            self._input.close()
        super().close()

    def fail(self, error: PystateError, stack_trace: str) -> None:
        """Stop handling events, and report the cause to the coordinator."""
        if self._mailbox.is_closed:
            return
        with contextlib.suppress(ControlError):  # the attempt is over
            super().fail(error, stack_trace)

    # -- called by other threads

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """For a source: send a barrier after everything emitted so far."""
        self._mailbox.put(lambda: self._checkpoint_source(barrier))

    def resume(self, checkpoint_id: int) -> None:
        """Continue after a barrier that was to be the last, since its checkpoint has failed."""
        self._mailbox.put(lambda: self._ending.failed(checkpoint_id))

    def change_pause(self, change: Callable[[OutputPause], None]) -> None:
        """Have the subtask pause its output until downstream tasks have room, or resume it."""
        self._mailbox.put(lambda: change(self._output.pause))

    def drain(self) -> None:
        """For a source: stop reading, and end event time."""
        self._mailbox.put(self._end_of_data)

    def notify(self, checkpoint_id: int, *, completed: bool) -> bool:
        """Notify the functions of the outcome of a checkpoint, between two elements.

        Returns:
            Whether all functions that listen have been notified and have handled it.
        """
        if not completed:
            self.change_pause(lambda pause: pause.end(checkpoint_id))
            if self._gate is not None:
                self._gate.abort(checkpoint_id)
        if not self.checkpoints.ended(checkpoint_id, completed=completed):
            return True
        heard = threading.Event()

        def tell() -> None:
            self.checkpoints.tell_later(checkpoint_id, completed=completed)
            self.checkpoints.deliver(self._has_failed)
            if self._failed is None:
                heard.set()

        self._mailbox.put(tell)
        return heard.wait(NOTIFY_TIMEOUT_S)

    # -- the thread

    def _run(self) -> None:
        try:
            with self._user_code():
                while not self._mailbox.is_closed and self._failed is None:
                    self._step()
        except ControlError as error:
            self.fail(error, "")
        except PystateError:
            return  # the coordinator has been notified

    def _step(self) -> None:
        """Handle the next event, or wait for it."""
        mail = self._mailbox.take()
        if mail is not None:
            with self._changed:
                mail()
        elif self._ending.is_taken:
            self._rest(None, lambda: False)
        elif self.source is not None:
            self._source_step(self.source)
        elif self._gate is not None:
            self._gate_step(self._gate)

    def _source_step(self, source: SourceInput) -> None:
        if self._at_end or self._output.pause.is_on:
            self._rest(None, lambda: False)
            return
        with self._changed:
            source.longest_s = self._interval.longest_take_s
            source.take(self.chain.watermarks.valves[0], whole=False)
            self._is_dirty = True
            if source.ended:
                self._hand_on()
                self._end_of_data()
                return
            due = source.next_due(self._hand_on_if_due())
        self._rest(due, lambda: source.is_roused)

    def _gate_step(self, gate: InputGate) -> None:
        # at the end only barriers come, which nothing may hold up: the driver looks after no pause any more
        paused = self._output.pause.is_on and not self._at_end
        event = gate.poll_checkpoint() if paused else gate.poll()
        deadline = gate.next_deadline()
        if event is None and paused:
            self._rest(deadline, lambda: gate.has_checkpoint_events or gate.next_deadline() != deadline)
            return
        if event is None:
            with self._changed:
                due = self._hand_on_if_due()
            self._rest(earliest(due, deadline), lambda: gate.has_events or gate.next_deadline() != deadline)
            return
        with self._changed:
            if isinstance(event, Frame):
                self._take_frame(event)
            elif self._input is not None:
                self._input.handle(event, self.checkpoints)
            if self._interval.is_over:
                self._hand_on()

    def _rest(self, due: int | None, is_roused: Any) -> None:
        """Wait for mail, input or the clock; at the latest until changes must be flushed."""
        timeout = None if due is None else (due - current_time_ms()) / 1000
        if timeout is not None and timeout <= 0:
            return
        if self._changes.is_pending:
            timeout = FLUSH_S if timeout is None else min(timeout, FLUSH_S)
        with self.chain.metrics.idle:
            self._mailbox.wait(is_roused, timeout)
        self._changes.flush_if_due(self._changed)

    # -- events, on the subtask's thread

    def _take_frame(self, frame: Frame) -> None:
        if frame.kind is FrameKind.BATCH:
            self._take_batch(pa.ipc.read_record_batch(pa.py_buffer(frame.data), self._schemas[frame.input_index]), frame)
        elif frame.kind is FrameKind.CHANGES:
            schema = self._schemas_of_changes[frame.input_index]
            self._take_batch(pa.ipc.read_record_batch(pa.py_buffer(frame.data), schema), frame)
        elif frame.kind is FrameKind.WATERMARKS:
            self._take_watermarks(frame)
        elif frame.kind is FrameKind.END_OF_DATA:
            self._open_channels.discard(frame.channel)
            if not self._open_channels:
                self._end_of_data()

    def _take_watermarks(self, frame: Frame) -> None:
        """Advance event time; the resulting output is sent before the next watermark."""
        before = self.chain.current_watermark
        self._is_dirty = True
        rows = pa.ipc.read_record_batch(pa.py_buffer(frame.data), WATERMARK_SCHEMA)
        self.chain.take_watermarks(rows, frame.input_index)
        self.chain.advance_watermarks()
        if self.chain.current_watermark != before:
            self._send_out()

    def _take_batch(self, batch: pa.RecordBatch, frame: Frame) -> None:
        """Process a batch in slices, and handle mail and overtaking barriers between them."""
        done = 0
        for rows in self._slices.of(batch):
            if done:
                self._between_slices()
                self._let_overtake(frame, batch.slice(done))
            if self._failed is not None or self._mailbox.is_closed:
                return
            self._is_dirty = True  # for each slice: the output of earlier ones may have been sent
            size = len(frame.data) if rows.num_rows == batch.num_rows else None
            self.chain.on_batch(rows, frame.input_index, size)
            done += rows.num_rows

    def _let_overtake(self, frame: Frame, rest: pa.RecordBatch) -> None:
        """Handle checkpoints before the rest of a batch."""
        while self._input is not None and (event := self._input.poll()) is not None:
            self._input.handle(event, self.checkpoints, remainder_of(frame, rest))

    def _between_slices(self) -> None:
        while (mail := self._mailbox.take()) is not None:
            mail()
        if self._interval.is_over:
            self._hand_on()

    def _hand_on_if_due(self) -> int | None:
        """Send what has waited long enough, and do what is due by now; return when more is due, None for never."""
        if (self._is_dirty and self._interval.is_over) or self._due.is_over:
            self._hand_on()
        return earliest(self._due.next(), self._interval.due() if self._is_dirty else None)

    def _hand_on(self) -> None:
        """Advance event time, fire due timers, and send the output."""
        if not self._at_end:
            self._due.see()
            self.chain.advance_watermarks()
        self._send_out()
        self._changes.flush_if_due(self._changed)

    def _send_out(self) -> None:
        self.chain.flush_output()
        self._output.write_watermarks(self.chain.watermarks_out(of_assigners=self._due.on_periodic_emit()))
        self._interval.handed_on(self.chain.metrics.blocked_ns, self._output.sent_bytes)
        self._changes.is_pending |= self._is_dirty
        self._is_dirty = False

    def _end_of_data(self) -> None:
        """End event time, and signal that no element follows."""
        if self._at_end:
            return
        self._at_end = self._due.at_end = True
        self.chain.advance_watermarks(end_of_input=True)
        self._send_out()
        self._changes.flush()
        self._output.end_of_data()

    def _checkpoint_source(self, barrier: CheckpointBarrier) -> None:
        """Send a barrier after all earlier output, and take the subtask's part of the checkpoint."""
        if barrier.checkpoint_id > self._output.last_barrier:
            self._settle()
            self._output.barrier(barrier)
            self.checkpoints.take(barrier, Alignment(0))
            self._ending.taken(barrier)

    def _settle(self) -> None:
        """Send all results so far, and flush all changes to the state."""
        self._hand_on()
        self._changes.flush()

    def _write(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        self._output.write(output, batch, self.chain.metrics)


def _with_kinds(schema: pa.Schema) -> pa.Schema:
    """Return the schema of batches with kinds: an output appends them, then a keyed edge the key groups."""
    place = schema.get_field_index(KEY_GROUP_FIELD)
    return schema.append(KIND_COLUMN) if place < 0 else schema.insert(place, KIND_COLUMN)
