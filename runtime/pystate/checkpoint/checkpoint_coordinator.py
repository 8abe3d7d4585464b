"""Owns time: numbers checkpoints, triggers, completes and aborts them.

The rules are in `pystate.checkpoint`, what is decided by them in `CheckpointsUnderWay`; where a barrier goes is the
engine's, behind `BarrierPlacement`. Here decisions meet threads, slots and storage. This class holds no lock of its own:
what threads share is in `CheckpointsUnderWay`, and changes by its steps only.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from pystate.checkpoint.barrier_placement import BarrierPlacement
from pystate.checkpoint.checkpoint_request import CheckpointRequest
from pystate.checkpoint.checkpoint_settings import CheckpointSettings
from pystate.checkpoint.checkpoints_under_way import CheckpointsUnderWay
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.coordinator_steps import (
    CompleteCheckpoint,
    CoordinatorStep,
    DiscardLateParts,
    FailCheckpoint,
    GiveUpStorageStep,
    PlaceBarrier,
    StorageStep,
    TriggerCheckpoint,
)
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.id_counter import CheckpointIdCounter
from pystate.checkpoint.live_attempt import CheckpointSlots
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.checkpoint.restore_points import RestorePoints
from pystate.checkpoint.snapshot_metadata import JobDescription, write_snapshot
from pystate.checkpoint.stats.checkpoint_stats import CheckpointedTask
from pystate.checkpoint.stats.file import StatisticsFile
from pystate.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.common.configuration import Configuration
from pystate.common.errors import (
    CheckpointFailedError,
    PystateError,
    SnapshotError,
    SnapshotExistsError,
    SubtaskHangsError,
)
from pystate.common.job_files import JobFile
from pystate.common.job_status import JobStatus
from pystate.common.options import RecoveryClaimMode
from pystate.common.time import current_time_ms
from pystate.plan.task import TaskSpec
from pystate.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.snapshot.snapshot import Snapshot
from pystate.snapshot.storage import SnapshotLocation

_CLOSE_S = 30.0


class CheckpointCoordinator:
    """The checkpoints of one job, over all its attempts.

    Args:
        job: What snapshots say of the job.
        configuration: The options in force.
        statistics_file: Where the statistics are kept for the next driver.
        clock: Monotonic seconds.
        ids: Gives the checkpoints' ids.
        check_term: Raises DriverReplacedError where another driver runs the job by now.

    Attributes:
        checkpoints: Those under way; subtasks and engines report to it.
        check_term: Raises DriverReplacedError where another driver runs the job by now.
    """

    def __init__(
        self,
        job: JobDescription,
        configuration: Configuration,
        statistics_file: JobFile,
        clock: Callable[[], float] = time.monotonic,
        ids: CheckpointIdCounter | None = None,
        check_term: Callable[[], object] = lambda: None,
    ) -> None:
        self._job = job
        self._clock = clock
        self._settings = settings = CheckpointSettings.of(configuration, job.job_id)
        self._storage = settings.storage
        self._points = RestorePoints(settings, job.job_id)
        self._statistics = StatisticsFile(statistics_file, settings.history_size, current_time_ms)
        self.checkpoints = CheckpointsUnderWay(settings, self._points, self._statistics, clock)
        self._ids = ids or CheckpointIdCounter()
        self.check_term = check_term
        self._tasks: list[TaskSpec] = []
        self._thread = threading.Thread(target=self._loop, name="checkpoint-coordinator", daemon=True)

    # -- the job's life

    def recover(self, say: Callable[[str], None]) -> None:
        """Take over the checkpoints of an earlier driver of the job; to be called in front of `start`.

        Args:
            say: Takes a sentence about a damaged checkpoint that an older one stands in for.

        Raises:
            CorruptSnapshotError: There is none but a damaged one.
            SnapshotError: The storage can't be read.
        """
        self._ids.continue_above(self._points.recover(say))
        self._statistics.recover(say)

    def has_claimed(self, snapshot: Snapshot) -> bool:
        """Whether an earlier driver of the job has claimed a snapshot.

        Raises:
            SnapshotError: The storage can't tell.
        """
        return self._points.has_claimed(snapshot)

    def start(
        self,
        tasks: list[TaskSpec],
        starting: Snapshot | None,
        mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM,
        job_runs: Callable[[str], bool | None] = lambda _: None,
    ) -> None:
        """Begin to work for a planned job.

        Args:
            tasks: The job's tasks.
            starting: The snapshot the job was started from; ids of checkpoints go on above its id.
            mode: Whose that one is from now on.
            job_runs: Whether a job has not ended; None for one that nobody knows.

        Raises:
            CheckpointFailedError: Checkpoints are on and there is no place to write them.
            RestoreError: The snapshot is to be the job's, and is another one's.
            SnapshotError: The storage failed.
        """
        self._tasks = tasks
        self.checkpoints.start(sum(task.parallelism for task in tasks))
        self._statistics.tracker.describe_tasks(CheckpointedTask(task.uid, task.vertex_id, task.name) for task in tasks)
        if self._settings.enabled:
            self._storage.initialize()
        if starting is not None:
            self._points.start_from(starting, mode, job_runs)
            self._ids.continue_above(starting.metadata.checkpoint_id)
        self._thread.start()

    def close(self, status: JobStatus) -> None:
        """Stop working, and delete the checkpoints that the job's end leaves to nobody."""
        self.attempt_over(job_ends=status in (JobStatus.CANCELED, JobStatus.FINISHED))
        self.checkpoints.close()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)
        self._points.discard_failed(self.checkpoints.await_storage(_CLOSE_S))
        gone = self._points.discard_on(status)
        self._statistics.tracker.report_discarded(checkpoint.checkpoint_id for checkpoint in gone)
        self._statistics.changed()
        self._statistics.close()

    def latest_snapshot(self) -> Snapshot | None:
        """Return what a new attempt starts from, see `CheckpointsUnderWay.latest_snapshot`."""
        return self.checkpoints.latest_snapshot()

    def give_up_latest(self) -> bool:
        """Forget the latest checkpoint, which is damaged; return whether an older one of the job is there to restore."""
        return self.checkpoints.give_up_latest()

    def report_restored(self, snapshot: Snapshot) -> None:
        """Take note of a restore, for the statistics."""
        is_savepoint = snapshot.metadata.checkpoint_type is CheckpointType.SAVEPOINT
        self._statistics.tracker.report_restored(snapshot.metadata.checkpoint_id, is_savepoint, snapshot.location.uri)
        self._statistics.changed()

    # -- the attempt's life

    @property
    def engine_triggers(self) -> bool:
        """Whether the engine is to bring each checkpoint itself, and needs each of them."""
        return self._settings.engine_triggers

    @property
    def task_owned_location(self) -> SnapshotLocation:
        """Where an engine keeps what belongs to the job, and to no checkpoint."""
        return self._storage.task_owned_location

    def attempt_started(
        self, pool: CheckpointSlots, barriers: BarrierPlacement, on_intolerable: Callable[[PystateError], None]
    ) -> None:
        """Begin to take checkpoints of an attempt.

        Args:
            pool: Its slots.
            barriers: Where its engine places barriers.
            on_intolerable: Called when more checkpoints failed in a row than is tolerated.
        """
        self._points.delete_orphans(self._ids.next_id)
        self.checkpoints.begin_attempt(pool, barriers, on_intolerable)

    def attempt_over(self, pool: CheckpointSlots | None = None, *, job_ends: bool = False) -> None:
        """Give up all that belongs to the attempt: whoever waits in it gets AttemptOverError.

        Args:
            pool: Its slots; nothing is done where another attempt has begun since. None for whichever attempt runs.
            job_ends: The job was cancelled, or is finished: a checkpoint that was under way has not failed, it isn't wanted.
        """
        left = self.checkpoints.end_attempt(pool, job_ends=job_ends)
        reason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        if job_ends:
            reason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        for entry in left.checkpoints:
            self.fail(entry, reason, self._over())
        for request in left.requests:
            request.future.set_exception(self._over())

    # -- asking for checkpoints

    def trigger_checkpoint(self, *, full: bool = False) -> Future[CompletedCheckpoint]:
        """Ask for a checkpoint now.

        Args:
            full: Whether it refers to no older one's files, where the job's checkpoints are incremental.
        """
        self._storage.initialize()
        return self._submit(CheckpointRequest(CheckpointType.CHECKPOINT, full=full))

    def trigger_savepoint(
        self,
        target_directory: str | None,
        *,
        hold: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[CompletedCheckpoint]:
        """Ask for a savepoint.

        Args:
            target_directory: Where; None for the configured directory.
            hold: No epoch may begin behind it, unless it fails.
            message: What the savepoint says about itself.
            format: How keyed state is written.

        Raises:
            CheckpointFailedError: There is neither.
        """
        location = self._storage.savepoint_location(target_directory)
        request = CheckpointRequest(CheckpointType.SAVEPOINT, location=location, hold=hold, message=message, format=format)
        return self._submit(request)

    def final_checkpoint(self, timeout_s: float) -> None:
        """Take the last checkpoint of a job whose sources are read; nothing where checkpoints are off.

        Raises:
            CheckpointFailedError: It failed.
        """
        if self._settings.enabled:
            self.trigger_checkpoint().result(timeout_s)

    def _submit(self, request: CheckpointRequest) -> Future[CompletedCheckpoint]:
        rejected = self.checkpoints.submit(request)
        if rejected is not None:
            message = "Too many checkpoints wait already."
            rejected.future.set_exception(CheckpointFailedError(message, hint="wait for one of them"))
        return request.future

    # -- what came of them

    @property
    def tracker(self) -> CheckpointStatsTracker:
        """The statistics of the job's checkpoints."""
        return self._statistics.tracker

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as Flink's REST has them."""
        return self._statistics.tracker.to_rest()

    def statistics_of(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return one checkpoint's statistics as Flink's REST has them; None where it isn't listed."""
        return self._statistics.tracker.details(checkpoint_id)

    def statistics_of_subtasks(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any] | None:
        """Return the statistics of an operator's subtasks; None where the checkpoint or the operator isn't listed."""
        return self._statistics.tracker.subtask_details(checkpoint_id, vertex_id)

    # -- the coordinator's own thread

    def _loop(self) -> None:
        """Take one step after the other. What may hang runs on a thread of its own: checkpoints must expire all the same."""
        while (step := self.checkpoints.await_step()) is not None:
            try:
                self._take(step)
            except Exception:  # one checkpoint's trouble must not end all later ones; the log tells what it was
                traceback.print_exc()

    def _take(self, step: CoordinatorStep) -> None:
        match step:
            case PlaceBarrier(entry):
                self._place(entry)
            case FailCheckpoint(entry, reason, error, fails_attempt):
                self.fail(entry, reason, error, fails_attempt=fails_attempt)
            case GiveUpStorageStep(hung):
                self._give_up(hung)
            case TriggerCheckpoint() | CompleteCheckpoint() | DiscardLateParts():
                _beside(lambda: self._use_storage(step))

    def _use_storage(self, step: StorageStep) -> None:
        try:
            match step:
                case TriggerCheckpoint(request):
                    self._trigger(request)
                case CompleteCheckpoint(entry):
                    self._complete(entry)
                case DiscardLateParts(locations):
                    self._points.discard_failed(locations)
        finally:
            self.checkpoints.storage_done(step)

    def _give_up(self, hung: StorageStep) -> None:
        """Let others pass a step that hangs in the storage; a checkpoint it belongs to expires by itself."""
        sys.stderr.write(f"WARNING: the checkpoint storage has not answered for {self._settings.timeout_s:g} s.\n")
        if isinstance(hung, TriggerCheckpoint):
            timeout = f"The checkpoint could not be triggered within {self._settings.timeout_s:g} s."
            _answer(hung.request, CheckpointFailedError(timeout, hint="look at the storage of checkpoints and of the job"))

    def _trigger(self, request: CheckpointRequest) -> None:
        entry: PendingCheckpoint | None = None
        try:
            with contextlib.suppress(PystateError):  # whoever asked for it knows
                entry = self.prepare(request)
        finally:
            in_time = self.checkpoints.triggered(entry)
        if entry is not None and not in_time:
            self.fail(entry, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, self._over())
            self._points.discard_failed({entry.checkpoint_id: entry.location})  # made behind its failure

    def prepare(self, request: CheckpointRequest) -> PendingCheckpoint:
        """Return the checkpoint for a request, with its directory made.

        Raises:
            PystateError: Its id can't be written down, the directory can't be made, or the job is another driver's; the
                checkpoint has failed.
        """
        try:
            checkpoint_id = self._ids.get_and_increment()
        except OSError as error:
            failure = CheckpointFailedError(f"The id of the next checkpoint can't be written down: {error}.")
            _answer(request, failure)
            raise failure from error
        if request.future.done():  # it was given up while the storage hung
            raise self._over()
        location = request.location or self._storage.checkpoint_location(checkpoint_id)
        tasks = {(task.uid, index) for task in self._tasks for index in range(task.parallelism)}
        entry = PendingCheckpoint(
            checkpoint_id,
            checkpoint_type=request.checkpoint_type,
            format=request.format,
            trigger_timestamp=current_time_ms(),
            tasks=tasks,
            location=location,
            message=request.message,
            request=request,
            deadline=self._clock() + self._settings.timeout_s,
        )
        self._statistics.tracker.report_pending(entry)
        self._statistics.changed()
        if not self.checkpoints.triggering(entry):
            self.fail(entry, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, self._over())
            raise self._over()
        try:
            self.check_term()
            location.create()
            entry.created = True
        except PystateError as error:
            entry.created = not isinstance(error, SnapshotExistsError)
            self.fail(entry, CheckpointFailureReason.IO_EXCEPTION, error)
            raise
        return entry

    def _place(self, entry: PendingCheckpoint) -> None:
        ask = self.checkpoints.place(entry)
        if ask is not None:
            _beside(ask)

    def _complete(self, entry: PendingCheckpoint) -> None:
        cut = self.checkpoints.begin_finalizing(entry)
        if cut is None:
            return
        try:
            self.check_term()  # as late as can be: what is complete is what the next driver starts from
            threshold, parent = self._settings.inline_threshold(entry.location), self._points.parent
            settled = self._points.shared.settled
            metadata = write_snapshot(entry, entry.location, cut, self._job, self._tasks, parent, threshold, settled)
        except Exception as error:  # whatever it was: nobody may wait for this checkpoint any longer
            failure = (
                error if isinstance(error, PystateError) else SnapshotError(f"The metadata can't be written: {error!r}")
            )
            self.fail(entry, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, failure)
            self._points.finalizing_over(entry.checkpoint_id)
            return
        completed = self.checkpoints.settle(entry, metadata, current_time_ms())
        if completed is None:  # it expired while the storage hung
            self._points.finalizing_over(entry.checkpoint_id)
            return
        self._points.shared.completed(metadata)
        subsumed = self.checkpoints.complete(entry, completed)
        for older in subsumed.overtaken:
            late = CheckpointFailedError(f"Checkpoint {entry.checkpoint_id} completed first.")
            self.fail(older, CheckpointFailureReason.CHECKPOINT_SUBSUMED, late)
        gone = self._points.discard_subsumed(subsumed.completed, subsumed.lowest_base)
        self._statistics.tracker.report_discarded(checkpoint.checkpoint_id for checkpoint in gone)
        self._statistics.changed()
        told = self._tell(entry, completed=True)
        # a job that is stopped or has read its sources ends behind its last checkpoint: its functions must know of it first
        told.add_done_callback(lambda _: entry.request.future.set_result(completed))

    def fail(
        self,
        entry: PendingCheckpoint,
        reason: CheckpointFailureReason,
        error: PystateError,
        *,
        fails_attempt: bool = False,
    ) -> None:
        """End a checkpoint badly; what it has written is deleted by a later step, for that may hang."""
        if not self.checkpoints.abort(entry, reason):
            return
        # what stands there already is not ours to delete
        ours = entry.created and not isinstance(error, SnapshotExistsError)
        if ours:  # in front of its end: from then on nothing else keeps files that its metadata may name
            self._points.note_failed(entry.checkpoint_id, entry.location, entry.confirmed, held=entry.finalizing)
        end_attempt = self.checkpoints.fail(entry, reason, error, leaves_files=ours, fails_attempt=fails_attempt)
        self._tell(entry, completed=False)
        self._statistics.changed()
        failure = CheckpointFailedError(error.message, where=error.where or entry.location.uri, hint=error.hint)
        _answer(entry.request, failure)
        if end_attempt is not None:
            end_attempt(error if isinstance(error, SubtaskHangsError) else failure)

    def _over(self) -> CheckpointFailedError:
        happened = "was stopped or cancelled, or has finished," if self.checkpoints.job_ends else "ended or restarted"
        return CheckpointFailedError(f"The job {happened} before the checkpoint was complete.")

    def _tell(self, entry: PendingCheckpoint, *, completed: bool) -> Future[None]:
        """Tell the job's functions how a checkpoint ended; return what is done when those that are idle have been called.

        A savepoint is for people: unless the job ends behind it, functions must not commit anything because of it.
        """
        pool = self.checkpoints.pool
        if pool is None or (completed and entry.is_savepoint and not entry.request.hold):
            nobody: Future[None] = Future()
            nobody.set_result(None)
            return nobody
        return pool.notify(entry.checkpoint_id, completed=completed)


def _beside(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="checkpoint-coordinator-call", daemon=True).start()


def _answer(request: CheckpointRequest, failure: PystateError) -> None:
    with contextlib.suppress(InvalidStateError):  # it was given up before, while the storage hung
        request.future.set_exception(failure)
