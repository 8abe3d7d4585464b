"""A subtask's epochs as transactions: run once, roll back what died half way, keep the output, take snapshots.

An epoch goes three steps. It runs while its rows come. It is prepared when the last one is in: its changes still lie in the
overlay, its output may go on to the next tasks. It is finished when the driver says so, once Spark counts the task attempt
that brought the rows as successful; its changes then go to the backend, and its barrier is taken. An attempt that Spark
doesn't count is rolled back as soon as a newer one asks.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

import pystate
from pystate.checkpoint.memory_storage import snapshot_location
from pystate.checkpoint.metadata import TaskState
from pystate.checkpoint.native_state import SharedTarget
from pystate.checkpoint.stats import SubtaskCheckpointMetrics
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.bounded_text import MAX_TRACE, bounded_text
from pystate.common.configuration import Configuration
from pystate.common.errors import ControlError, PystateError, RecordError, UserFunctionError
from pystate.common.options import StateBackendOptions
from pystate.plan.chain import OperatorSpec
from pystate.plan.output import OutputSpec
from pystate.plan.task import JobEnvironment, TaskSpec
from pystate.slot.epoch_ledger import Asker, ClaimResult, EpochLedger, TaskOutcome
from pystate.slot.frozen_task import FrozenTask
from pystate.slot.kept_output import KeptOutput
from pystate.slot.prepared_epoch import PreparedEpoch
from pystate.slot.restored_operator import RestoredOperator
from pystate.slot.task_operator import TaskOperator

OUTCOME_TIMEOUT_S = 60.0
"""How long a task attempt waits for Spark's word on the one before it, which has nothing to do any more but to end."""
_OUTCOME_POLL_S = 0.02


@dataclass(frozen=True)
class SnapshotRequest:
    """A barrier: what a subtask needs to know to take its part of a checkpoint.

    Attributes:
        location: The URI of the snapshot's directory.
        inline_threshold: State up to this many bytes travels in the acknowledgement.
        trigger_timestamp: When the checkpoint was triggered, ms since 1970.
        shared: The URI of the directory for files that later checkpoints may refer to; None for a checkpoint with all state.
        shared_prefix: How the names of this checkpoint's files begin there.
        savepoint: Whether it is a savepoint.
        native: Whether all state is written in the state backend's own files, as a native savepoint.
        full: Whether an incremental checkpoint refers to no older one's files.
        completed: The checkpoints that have completed meanwhile, oldest first: it may refer to files of the last of them.
    """

    checkpoint_id: int
    epoch: int
    location: str
    inline_threshold: int
    trigger_timestamp: int
    shared: str | None = None
    shared_prefix: str = ""
    savepoint: bool = False
    native: bool = False
    full: bool = False
    completed: Sequence[int] = ()

    @property
    def shared_target(self) -> SharedTarget | None:
        """Where files go that later checkpoints may refer to; None for a checkpoint with all state."""
        if self.shared is None:
            return None
        return SharedTarget(SnapshotLocation(self.shared), self.shared_prefix, self.full, self.completed)


class Coordinator(Protocol):
    """What a subtask tells the coordinator and asks of it."""

    def epoch_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Say that all rows of an epoch are in."""

    def task_outcome(self, uid: str, subtask: int, asker: Asker) -> TaskOutcome:
        """Ask what became of the Spark task attempt that brought an epoch's rows."""

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> None:
        """Hand over the state handles of a checkpoint."""

    def decline(self, checkpoint_id: int, uid: str, subtask: int, error: PystateError) -> None:
        """Say that this subtask's part of a checkpoint failed."""

    def task_failed(self, uid: str, subtask: int, error: PystateError, stack_trace: str) -> None:
        """Say that the job can't go on."""


class _Claim:
    """The right of one task attempt to run an epoch.

    Attributes:
        hang_up: Cuts its connection.
        fenced: A newer attempt wants the epoch.
        at_end: All rows are in: too late to be fenced.
    """

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self.hang_up = hang_up
        self.fenced = False
        self.at_end = False


class FencedError(ControlError):
    """A newer attempt of the same task has taken over."""


class Subtask:
    """One subtask of a task in its slot.

    Args:
        task: What to run.
        index: Which share.
        environment: The job.
        coordinator: Whom to ask and tell.
        upload: Runs the asynchronous part of a snapshot on another thread.
        finished_epoch: The epoch the restored state stands at.
    """

    def __init__(
        self,
        task: TaskSpec,
        index: int,
        environment: JobEnvironment,
        coordinator: Coordinator,
        upload: Callable[[Callable[[], None]], object],
        finished_epoch: int,
    ) -> None:
        self.task = task
        self.index = index
        self._environment = environment
        self._coordinator = coordinator
        self._upload = upload
        self._asynchronous = Configuration(environment.configuration).get(StateBackendOptions.ASYNC_SNAPSHOTS)
        self._ledger = EpochLedger(finished_epoch)
        self._changed = threading.Condition()
        self._claim: _Claim | None = None  # of the epoch that runs or is prepared
        self._prepared: PreparedEpoch | None = None
        self._run_ms = 0
        self._failed: PystateError | None = None
        self._notifications: list[tuple[int, bool]] = []
        self._kept = self._new_output()
        self._filling = self._kept
        self._rows_before = 0
        self.operator = TaskOperator(task, index, environment, self._keep)

    def open(self, restored: Mapping[str, RestoredOperator] | None = None, checkpoint_id: int | None = None) -> None:
        """Restore the state and open the functions.

        Args:
            restored: By operator uid: the old state that falls to this subtask.
            checkpoint_id: The checkpoint the job starts from, None for a start from nothing.
        """
        with self._user_code(self.task.head):
            self.operator.open(restored, checkpoint_id)

    def close(self) -> None:
        """Close functions, backend and kept output."""
        self.operator.close()
        self._kept.close()

    def run(
        self,
        epoch: int,
        asker: Asker,
        hang_up: Callable[[], None],
        batches: Callable[[], Generator[tuple[int, pa.RecordBatch], None, int]],
    ) -> KeptOutput:
        """Run an epoch up to its last row, or return its kept output if that has been done.

        Args:
            epoch: Which.
            asker: The task attempt that brings the rows.
            hang_up: Cuts the asker's connection, from another thread.
            batches: Called if the rows are needed: each batch with the index of its input, and in the end the number of rows
                that the asker has read, other tasks' included. Raises ControlError if the asker dies before its last row.

        Raises:
            FencedError: A newer attempt took over, or the epoch is past.
            ControlError: Spark doesn't say what became of the attempt that has brought the rows before.
        """
        claim = self._obtain(epoch, asker, hang_up)
        if claim is None:
            return self._kept
        started = time.perf_counter()
        self._kept.close()
        self._filling = self._new_output()
        self._rows_before = self.operator.records_in
        is_prepared = False
        try:
            with self._user_code(self.task.head):
                rows_read = self._process(claim, epoch, batches())
                self.operator.flush_output()
            self.operator.metrics.sample_gauges()
            self._pass_end(claim, epoch)
            with self._changed:
                rows_in = self.operator.records_in - self._rows_before
                rows_out = self.operator.metrics.rows_out(self._filling.rows_by_tag)
                prepared = PreparedEpoch(epoch, asker.stage_id, asker.task_attempt_id, rows_read, rows_in, rows_out)
                self._ledger.prepare()
                self._prepared = prepared
                self._kept = self._filling
                self._run_ms = int((time.perf_counter() - started) * 1000)
                is_prepared = True
        finally:
            with self._changed:
                if not is_prepared:
                    self._roll_back()
                    self._deliver_notifications()
                self._changed.notify_all()
        self._coordinator.epoch_prepared(self.task.uid, self.index, prepared)
        return self._kept

    def finish_epoch(self, epoch: int, task_attempt_id: int, request: SnapshotRequest | None) -> None:
        """Make a prepared epoch part of the state, and take the synchronous part of its barrier.

        Done already, nothing is done again: the driver may have lost the answer.

        Args:
            epoch: Which.
            task_attempt_id: The task attempt that has brought its rows and is successful, as Spark says.
            request: The barrier that the epoch carries; None for none.

        Raises:
            ControlError: The epoch isn't prepared, or another attempt has brought its rows.
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
                with self._user_code(self.task.head):  # a value of the wrong type shows when it is written back
                    self.operator.finish_epoch()
                self._ledger.finish()
                self._claim = self._prepared = None
                finished = True
                if request is not None:
                    self._take_snapshot(request)
            finally:
                if not finished:
                    self._roll_back()
                self._deliver_notifications()
                self._changed.notify_all()
            self.operator.metrics.epoch_finished(self._run_ms + int((time.perf_counter() - started) * 1000))

    def kept_output(self, epoch: int) -> KeptOutput:
        """Return the output of the last epoch.

        Raises:
            FencedError: Another epoch was asked for.
        """
        with self._changed:
            if self._ledger.begun != epoch or self._ledger.finished != epoch:
                message = f"The output of epoch {epoch} is not kept: epoch {self._ledger.finished} is the last one finished."
                raise FencedError(message, hint="use the DataFrame of for_each_batch() only while the function runs")
            return self._kept

    def snapshot_between_epochs(self, request: SnapshotRequest) -> None:
        """Take the synchronous part of a snapshot at the last finished epoch.

        Raises:
            ControlError: The subtask stands at another epoch.
        """
        with self._changed:
            if self._ledger.finished != request.epoch or not self._ledger.is_between_epochs:
                message = (
                    f"Subtask {self.index} of {self.task.uid} stands at epoch {self._ledger.finished}, not {request.epoch}."
                )
                raise ControlError(message)
            self._take_snapshot(request)

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        """Tell the functions what became of a checkpoint: at once between two epochs, else behind the one under way."""
        self.operator.checkpoint_ended(checkpoint_id, completed=completed)
        if not self.operator.listens:
            return
        with self._changed:
            self._notifications.append((checkpoint_id, completed))
            if self._ledger.is_between_epochs:
                self._deliver_notifications()

    def _obtain(self, epoch: int, asker: Asker, hang_up: Callable[[], None]) -> _Claim | None:
        deadline: float | None = None
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
            # whoever brought the rows has seen them end; whether that was their end Spark alone can say
            outcome = self._coordinator.task_outcome(self.task.uid, self.index, before.bringer)
            if outcome is TaskOutcome.SUCCEEDED:
                return None  # a later task may have read the output
            if outcome is TaskOutcome.FAILED:
                self._give_up(before)
                continue
            now = time.monotonic()
            deadline = deadline or now + OUTCOME_TIMEOUT_S
            if now >= deadline:
                message = f"Spark does not say what became of task {before.task_attempt_id}, which has run epoch {epoch}."
                raise ControlError(message, where=f"uid {self.task.uid}, subtask {self.index}")
            with self._changed:
                if self._prepared is before:
                    self._changed.wait(_OUTCOME_POLL_S)

    def _try_claim(self, epoch: int, asker: Asker) -> ClaimResult:
        """Claim an epoch, under the lock; fence the attempt that runs it where that is older."""
        if self._failed is not None:
            raise self._failed
        result = self._ledger.claim(epoch, asker)
        if result in (ClaimResult.STALE, ClaimResult.PAST, ClaimResult.UNCONFIRMED):
            message = f"Subtask {self.index} of {self.task.uid} does not run epoch {epoch} ({result.value})."
            raise FencedError(message)
        if result is ClaimResult.FENCE and self._claim is not None and not self._claim.at_end:
            self._claim.fenced = True
            self._claim.hang_up()
        return result

    def _give_up(self, prepared: PreparedEpoch) -> None:
        """Roll a prepared epoch back of whose bringer Spark uses nothing."""
        with self._changed:
            if self._prepared is prepared:
                if self._claim is not None:
                    self._claim.hang_up()
                self._roll_back()
                self._deliver_notifications()
                self._changed.notify_all()

    def _process(self, claim: _Claim, epoch: int, batches: Generator[tuple[int, pa.RecordBatch], None, int]) -> int:
        """Run the functions over all batches; return the number of rows that the asker has read."""
        while True:
            try:
                input_index, batch = next(batches)
            except StopIteration as end:
                return int(end.value)
            if claim.fenced:
                message = f"A newer attempt runs epoch {epoch}."
                raise FencedError(message)
            self.operator.process_batch(batch, input_index)

    def _pass_end(self, claim: _Claim, epoch: int) -> None:
        with self._changed:
            if claim.fenced:
                message = f"A newer attempt runs epoch {epoch}."
                raise FencedError(message)
            claim.at_end = True

    def _keep(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        data = batch.serialize().to_pybytes()
        self._filling.append(output.tag, data, batch.num_rows)
        self.operator.metrics.batch_out(output.tag, batch.num_rows, len(data))

    def _new_output(self) -> KeptOutput:
        return KeptOutput(self._environment.kept_output_bytes, self._environment.working_directory)

    def _roll_back(self) -> None:
        """Give the epoch in the overlay up; the task fails if its functions can't go back."""
        beyond = self.operator.roll_back_epoch()
        self.operator.records_in = self._rows_before
        self._filling.close()
        self._ledger.roll_back()
        self._claim = self._prepared = None
        if beyond is not None and self._failed is None:
            with contextlib.suppress(ControlError):  # the attempt is over, whoever asks
                self.fail(beyond, "")

    def _deliver_notifications(self) -> None:
        """Call the functions, between two epochs, on the thread that holds the subtask."""
        waiting, self._notifications = self._notifications, []
        try:
            for checkpoint_id, completed in waiting:
                if self._failed is not None:
                    return
                with self._user_code(self.task.head):
                    if completed:
                        self.operator.notify_checkpoint_complete(checkpoint_id)
                    else:
                        self.operator.notify_checkpoint_aborted(checkpoint_id)
        except PystateError:
            return  # the coordinator knows; the epoch that has just finished stays finished

    def _take_snapshot(self, request: SnapshotRequest) -> None:
        started = time.perf_counter()
        start_delay_ms = max(0, int(time.time() * 1000) - request.trigger_timestamp)
        try:
            frozen = self.operator.snapshot_state(
                request.checkpoint_id, request.trigger_timestamp, request.shared_target, native=request.native
            )
        except BaseException as error:
            # As in Flink a failure of the synchronous part fails the task, however many failed checkpoints are tolerated: it
            # is the functions' and the backend's own, and the storage has no part in it.
            failure, trace = self._snapshot_failure(error, UserFunctionError), user_stack_trace(error)
            self._upload(lambda: self._decline(request, failure))
            with contextlib.suppress(ControlError):  # the attempt is over, whoever asks
                self.fail(failure, trace)
            return
        sync_ms = int((time.perf_counter() - started) * 1000)
        if self._asynchronous:
            self._upload(lambda: self._write_snapshot(request, frozen, start_delay_ms, sync_ms))
        else:
            self._write_snapshot(request, frozen, start_delay_ms, sync_ms)

    def _write_snapshot(self, request: SnapshotRequest, frozen: FrozenTask, start_delay_ms: int, sync_ms: int) -> None:
        started = time.perf_counter()
        try:
            try:
                location = self._location(request)
                state = frozen.write(location, self.index, request.inline_threshold)
            finally:
                frozen.release()
        except BaseException as error:  # whatever went wrong, the coordinator must not wait for this subtask
            self._decline(request, self._snapshot_failure(error))
            return
        write_ms = int((time.perf_counter() - started) * 1000)
        metrics = SubtaskCheckpointMetrics(
            ack_timestamp=int(time.time() * 1000),
            sync_ms=sync_ms if self._asynchronous else sync_ms + write_ms,
            async_ms=write_ms if self._asynchronous else 0,
            start_delay_ms=start_delay_ms,
            # one subtask has one upstream side, so nothing can be early; else the driver's figures are needed
            alignment_ms=0 if self.task.parallelism == 1 else None,
            checkpointed_size=state.checkpointed_size,
            state_size=state.state_size,
        )
        try:
            self._coordinator.acknowledge(request.checkpoint_id, self.task.uid, self.index, state, metrics)
        except Exception as error:  # unheard, it would leave the checkpoint waiting until it expires
            self._decline(request, self._snapshot_failure(error))

    def _location(self, request: SnapshotRequest) -> SnapshotLocation:
        location, copies = snapshot_location(request.location), self.operator.copies
        if copies is None or location.inline_only or request.savepoint:
            return location
        return copies.writing(location, request.checkpoint_id)

    def _decline(self, request: SnapshotRequest, error: PystateError) -> None:
        self._coordinator.decline(request.checkpoint_id, self.task.uid, self.index, error)

    def _snapshot_failure(self, error: BaseException, kind: type[PystateError] = PystateError) -> PystateError:
        where = self.task.place_of(self.index)
        if isinstance(error, PystateError):
            error.where = where if error.where is None else f"{where}, {error.where}"
            return error
        text = bounded_text(f"{type(error).__name__}: {error}")
        return kind(f"The snapshot could not be taken: {text}", where=where)

    def _user_code(self, operator: OperatorSpec | None) -> _UserCode:
        return _UserCode(self, operator)

    def fail(self, error: PystateError, stack_trace: str) -> None:
        """Refuse all further epochs with `error` and tell the coordinator."""
        with self._changed:
            self._failed = error
            self._changed.notify_all()
        self._coordinator.task_failed(self.task.uid, self.index, error, stack_trace)


class _UserCode:
    """Turns what user code raises into a failure of the task, told to the coordinator with the user's own stack trace."""

    def __init__(self, subtask: Subtask, operator: OperatorSpec | None) -> None:
        self._subtask = subtask
        self._operator = operator

    def __enter__(self) -> None:
        """Enter."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Report what is the user's; what is ours or the connection's goes on as it is."""
        if error is None or isinstance(error, (ControlError, GeneratorExit)):
            return
        where = self._subtask.task.place_of(self._subtask.index)
        stack_trace = user_stack_trace(error)
        if isinstance(error, PystateError):
            failure = error
            if isinstance(error, RecordError) and error.where is not None:
                failure.where = f"{where}, {error.where}"  # it knows the stream, we the operator
            failure.where = failure.where or where
        else:
            hint = None if isinstance(error, Exception) else _NO_END
            failure = UserFunctionError(bounded_text(f"{type(error).__name__}: {error}"), where=where, hint=hint)
        self._subtask.fail(failure, stack_trace)
        raise failure from error


_NO_END = "a function can't end its job: return, raise an exception, or stop the job from outside"
_OUR_CODE = str(Path(pystate.__file__).parent)


def user_stack_trace(error: BaseException) -> str:
    """Return the stack trace from the first frame that isn't ours on; the whole of it where all frames are."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OUR_CODE):
        trace = trace.tb_next
    return bounded_text("".join(traceback.format_exception(type(error), error, trace or error.__traceback__)), MAX_TRACE)
