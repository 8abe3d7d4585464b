"""Runs a subtask's epochs as transactions: each runs once, is rolled back if it fails, keeps its output and takes snapshots.

An epoch has three phases. It is running while its rows arrive. It is prepared when it has the last row: its changes are
still in the overlay, its output may continue to the next tasks. It is finished when the driver says so, once Spark counts
the task attempt that sent the rows as successful; its changes then go to the backend, and its barrier is taken. An attempt
that Spark doesn't count is rolled back as soon as a newer one requests the epoch. A source that runs in slots sends itself
the rows: what it has read doesn't depend on the attempt, and a newer one gets it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import ControlError
from pystate.common.processes.machine_load import PatientDeadline
from pystate.connectors.operators.source_operator import MOST_BYTES_PER_EPOCH
from pystate.connectors.source import EpochBound
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker, ClaimResult, EpochLedger, TaskOutcome
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import OutputSpec
from pystate.runtime.slot.operators.source_input import SourceInput
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask import Subtask, SubtaskGateway
from pystate.runtime.slot.subtask_checkpoints import Upload

OUTCOME_TIMEOUT_S = 60.0
"""How long a task attempt waits for Spark's report on the previous attempt, which only has to end."""
_OUTCOME_POLL_S = 0.02

GIVE_UP_TIMEOUT_S = 5.0
"""How long closing a subtask waits for an epoch to give up its calls, which functions may delay."""


class EpochGateway(Protocol):
    """Additional calls to the driver by subtasks of this engine."""

    def epoch_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Report that all rows of an epoch have been received."""

    def task_outcome(self, uid: str, subtask: int, asker: Asker) -> TaskOutcome:
        """Ask for the outcome of the Spark task attempt that sent an epoch's rows."""

    def source_messages(self, uid: str, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        """Send a reader's messages to its enumerator, and return the answers."""

    def input_available(self) -> None:
        """Report that a source has input and no epoch is about to read it."""


class _Claim:
    """The claim of one task attempt to run an epoch.

    Attributes:
        hang_up: Closes the attempt's connection.
        fenced: A newer attempt requests the epoch.
        at_end: All rows have been received: too late to be fenced.
    """

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self.hang_up = hang_up
        self.fenced = False
        self.at_end = False


class FencedError(ControlError):
    """A newer attempt of the same task has taken over."""


class MicroBatchSubtask(Subtask):
    """One subtask of a task in its slot, fed with epochs.

    Args:
        task: The task to run.
        index: The subtask index.
        environment: The job's environment.
        gateway: Reports to the driver what every kind of subtask reports.
        epochs: Reports to the driver about epochs, and asks it about them.
        upload: Runs the asynchronous part of a snapshot on another thread.
        finished_epoch: The epoch number of the restored state.
    """

    def __init__(
        self,
        task: TaskSpec,
        index: int,
        environment: JobEnvironment,
        gateway: SubtaskGateway,
        epochs: EpochGateway,
        upload: Upload,
        finished_epoch: int,
    ) -> None:
        super().__init__(task, index, environment, gateway, upload, self._keep)
        self._environment = environment
        get = Configuration(environment.configuration).get
        self._most_rows = get(PystateOptions.SOURCE_MAX_ROWS_PER_EPOCH) or sys.maxsize
        self._most_file_bytes = get(PystateOptions.SOURCE_MAX_BYTES_PER_EPOCH)
        self._epochs = epochs
        self._ledger = EpochLedger(finished_epoch, reads_itself=task.is_own_source)
        self._claim: _Claim | None = None  # of the running or prepared epoch
        self._prepared: PreparedEpoch | None = None
        self._run_ms = 0
        self._kept = self._new_output()
        self._filling = self._kept
        self._rows_before = 0

    def open(
        self,
        restored: Mapping[str, RestoredOperator] | None = None,
        checkpoint_id: int | None = None,
        checkpoint_timestamp: int | None = None,
    ) -> None:
        """Restore the state and open the functions; connect a source to the driver."""
        super().open(restored, checkpoint_id, checkpoint_timestamp)
        if self.versions is not None:
            self.versions.begin(self._ledger.finished, checkpoint_id, checkpoint_timestamp)
        if self.source is not None:
            uid, index, epochs = self.task.uid, self.index, self._epochs
            self.source.connect(partial(epochs.source_messages, uid, index), epochs.input_available)
            self.source.bound(self._most_rows, MOST_BYTES_PER_EPOCH)

    @property
    def source(self) -> SourceInput | None:
        """The input of the task's head, if it is a source; None otherwise."""
        return self.chain.operators[-1].source if self.chain.operators else None

    def close(self) -> None:
        """Close functions, backend and kept output, after an epoch that waits for asynchronous calls has given them up."""
        if self.chain.interrupt():
            with self._changed:
                self._changed.wait_for(lambda: self._claim is None or self._prepared is not None, GIVE_UP_TIMEOUT_S)
        super().close()
        self._kept.close()

    def run(
        self,
        epoch: int,
        asker: Asker,
        hang_up: Callable[[], None],
        batches: Callable[[], Generator[tuple[int, pa.RecordBatch], None, int]],
        *,
        end_of_input: bool = False,
        clock: int | None = None,
        ended: Sequence[str] = (),
    ) -> KeptOutput:
        """Run an epoch up to its last row, or return its kept output if it has run before.

        Args:
            epoch: The epoch number.
            asker: The task attempt that sends the rows.
            hang_up: Closes the attempt's connection, from another thread.
            batches: Called if the rows are needed: yields each batch with its input index, where watermark indexes follow
                those of all inputs, and returns the number of rows that the attempt has read, including those for other
                tasks. Raises ControlError if the attempt dies before its last row.
            end_of_input: Whether no epoch follows: event time ends after the rows.
            clock: The time up to which processing-time timers fire, ms since 1970; None for the subtask's clock.
            ended: The channels of sources that have ended after the rows.

        Raises:
            FencedError: A newer attempt took over, or the epoch is past.
            ControlError: Spark doesn't report the outcome of the attempt that sent the rows before.
        """
        claim = self._obtain(epoch, asker, hang_up)
        if claim is None:
            return self._kept
        started = time.perf_counter()
        self._kept.close()
        self._filling = self._new_output()
        self._rows_before = self.chain.records_in
        is_prepared = False
        source = self.source
        try:
            with self._user_code():
                rows_read = self._process(claim, epoch, batches())
                if source is not None and (self._environment.batch or not end_of_input):
                    bound = EpochBound(epoch, self.index, self.task.parallelism, self._most_file_bytes)
                    source.take(self.chain.watermarks.valves[0], whole=self._environment.batch, epoch=bound)
                self.chain.advance_watermarks(end_of_input=end_of_input, clock=clock, ended=ended)
                self.chain.flush_output()
                for outgoing in self.chain.watermarks_out():
                    output, row = outgoing.batch()
                    self._filling.append(output.tag, row.serialize().to_pybytes(), row.num_rows)
            self.chain.metrics.sample_gauges()
            self._pass_end(claim, epoch)
            with self._changed:
                rows_in = self.chain.records_in - self._rows_before
                rows_out = self.chain.metrics.rows_out(self._filling.rows_by_tag)
                timer, source_ended = self.chain.next_processing_time_timer(), None
                if source is not None:
                    timer, source_ended = source.next_due(timer), source.ended
                prepared = PreparedEpoch(
                    epoch, asker.stage_id, asker.task_attempt_id, rows_read, rows_in, rows_out, timer, source_ended
                )
                self._ledger.prepare()
                self._prepared, self._kept = prepared, self._filling
                self._run_ms = int((time.perf_counter() - started) * 1000)
                is_prepared = True
        finally:
            with self._changed:
                if not is_prepared:
                    self._roll_back()
                    self.checkpoints.deliver(self._has_failed)
                self._changed.notify_all()
        self._epochs.epoch_prepared(self.task.uid, self.index, prepared)
        return self._kept

    def finish_epoch(self, epoch: int, task_attempt_id: int, barrier: CheckpointBarrier | None) -> None:
        """Commit a prepared epoch to the state, and take the synchronous part of its barrier.

        Repeated calls have no effect: the driver may have lost the answer.

        Args:
            epoch: The epoch number.
            task_attempt_id: The task attempt that sent the rows and was successful, as Spark reports.
            barrier: The barrier that the epoch carries, or None.

        Raises:
            ControlError: The epoch isn't prepared, or another attempt sent its rows.
            PystateError: The epoch's changes can't be written back.
        """
        with self._changed:
            prepared = self._prepared
            if prepared is None and self._ledger.finished == epoch:
                return
            if prepared is None or (prepared.epoch, prepared.task_attempt_id) != (epoch, task_attempt_id):
                message = f"Subtask {self.index} of {self.task.uid} can't finish epoch {epoch} of task {task_attempt_id}."
                raise ControlError(message, where=f"prepared is {prepared}")
            started = time.perf_counter()
            finished = False
            try:
                with self._user_code():  # a value of the wrong type is detected when it is written back
                    self.chain.finish_epoch()
                self._ledger.finish()
                self._claim = self._prepared = None
                finished = True
                if self.versions is not None:
                    self.versions.epoch_finished(epoch)
                if barrier is not None:
                    self.checkpoints.take(barrier)
            finally:
                if not finished:
                    self._roll_back()
                self.checkpoints.deliver(self._has_failed)
                self._changed.notify_all()
            self.chain.metrics.epoch_finished(self._run_ms + int((time.perf_counter() - started) * 1000))

    def kept_output(self, epoch: int) -> KeptOutput:
        """Return the output of the last epoch.

        Raises:
            FencedError: Another epoch was requested.
        """
        with self._changed:
            if self._ledger.begun != epoch or self._ledger.finished != epoch:
                message = f"The output of epoch {epoch} is not kept: epoch {self._ledger.finished} is the last one finished."
                raise FencedError(message, hint="use the DataFrame of for_each_batch() only while the function runs")
            return self._kept

    def snapshot_between_epochs(self, barrier: CheckpointBarrier) -> None:
        """Take the synchronous part of a snapshot at the last finished epoch.

        Raises:
            ControlError: The subtask is at another epoch.
        """
        with self._changed:
            if self._ledger.finished != barrier.epoch or not self._ledger.is_between_epochs:
                message = (
                    f"Subtask {self.index} of {self.task.uid} stands at epoch {self._ledger.finished}, not {barrier.epoch}."
                )
                raise ControlError(message)
            self.checkpoints.take(barrier)

    def _is_at_rest(self) -> bool:
        return self._ledger.is_between_epochs

    def _obtain(self, epoch: int, asker: Asker, hang_up: Callable[[], None]) -> _Claim | None:
        deadline: PatientDeadline | None = None
        while True:
            with self._changed:
                result = self._try_claim(epoch, asker)
                if result is ClaimResult.RUN:
                    self._claim = _Claim(hang_up)
                    return self._claim
                if result is ClaimResult.REPLAY:
                    return None
                before = self._prepared
                if before is None:
                    self._changed.wait()
                    continue
            # the sender of the rows has seen them end; only Spark can tell whether that was their real end
            outcome = self._epochs.task_outcome(self.task.uid, self.index, before.bringer)
            if outcome is TaskOutcome.SUCCEEDED:
                return None  # a later task may have read the output
            if outcome is TaskOutcome.FAILED:
                taken = self._take_from(before, asker, hang_up)
                if taken is None:
                    continue
                self._epochs.epoch_prepared(self.task.uid, self.index, taken)
                return None
            deadline = deadline or PatientDeadline(OUTCOME_TIMEOUT_S)
            if deadline.has_passed():
                message = f"Spark does not say what became of task {before.task_attempt_id}, which has run epoch {epoch}."
                raise ControlError(message, where=f"uid {self.task.uid}, subtask {self.index}")
            with self._changed:
                if self._prepared is before:
                    self._changed.wait(_OUTCOME_POLL_S)

    def _try_claim(self, epoch: int, asker: Asker) -> ClaimResult:
        """Claim an epoch under the lock; fence the attempt that runs it if it is older."""
        if self._failed is not None:
            raise self._failed
        result = self._ledger.claim(epoch, asker)
        if result in (ClaimResult.STALE, ClaimResult.PAST, ClaimResult.UNCONFIRMED):
            message = f"Subtask {self.index} of {self.task.uid} does not run epoch {epoch} ({result.value})."
            raise FencedError(message)
        if result in (ClaimResult.FENCE, ClaimResult.TAKE_OVER) and self._claim is not None and not self._claim.at_end:
            if result is ClaimResult.FENCE:
                self._claim.fenced = True
                self.chain.interrupt()
            self._claim.hang_up()
        return result

    def _take_from(self, prepared: PreparedEpoch, asker: Asker, hang_up: Callable[[], None]) -> PreparedEpoch | None:
        """End what a task attempt that Spark doesn't use has prepared.

        Returns:
            The epoch as the newer attempt's own, if its rows were not the older one's; None if it was rolled back.
        """
        with self._changed:
            if self._prepared is not prepared:
                return None
            if self._claim is not None:
                self._claim.hang_up()
            if self._ledger.take_over(asker):
                self._claim = _Claim(hang_up)
                self._claim.at_end = True
                self._prepared = replace(prepared, stage_id=asker.stage_id, task_attempt_id=asker.task_attempt_id)
                return self._prepared
            self._roll_back()
            self.checkpoints.deliver(self._has_failed)
            self._changed.notify_all()
            return None

    def _process(self, claim: _Claim, epoch: int, batches: Generator[tuple[int, pa.RecordBatch], None, int]) -> int:
        """Run the functions over all batches; return the number of rows that the attempt has read."""
        inputs = len(self.task.inputs)
        while True:
            try:
                input_index, batch = next(batches)
            except StopIteration as end:
                return int(end.value)
            if claim.fenced:
                message = f"A newer attempt runs epoch {epoch}."
                raise FencedError(message)
            if input_index < inputs:
                self.chain.on_batch(batch, input_index)
            else:
                self.chain.take_watermarks(batch, input_index - inputs)

    def _pass_end(self, claim: _Claim, epoch: int) -> None:
        with self._changed:
            if claim.fenced:
                message = f"A newer attempt runs epoch {epoch}."
                raise FencedError(message)
            claim.at_end = True

    def _keep(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        data = batch.serialize().to_pybytes()
        self._filling.append(output.tag, data, batch.num_rows)
        self.chain.metrics.batch_out(output.tag, batch.num_rows, len(data))

    def _new_output(self) -> KeptOutput:
        return KeptOutput(self._environment.kept_output_bytes, self._environment.working_directory)

    def _roll_back(self) -> None:
        """Roll back the epoch in the overlay; the task fails if its functions can't be rolled back."""
        beyond = self.chain.roll_back_epoch()
        self.chain.records_in = self._rows_before
        self._filling.close()
        self._ledger.roll_back()
        self._claim = self._prepared = None
        if beyond is not None and self._failed is None:
            with contextlib.suppress(ControlError):  # the attempt is over
                self.fail(beyond, "")
