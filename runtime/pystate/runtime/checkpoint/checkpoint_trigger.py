"""Triggers checkpoints: from a request to a directory and a barrier that waits for its place."""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.errors import CheckpointFailedError, PystateError, SnapshotExistsError
from pystate.common.time import current_time_ms
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.runtime.checkpoint.checkpoint_failures import CheckpointFailures
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.id_counter import CheckpointIdCounter
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.plan.task import TaskSpec


class CheckpointTrigger:
    """Triggers checkpoints.

    Args:
        pending: The pending checkpoints.
        attempt: The current attempt.
        failures: Handles those that can't begin.
        ids: The id counter.
        storage: The checkpoint storage.
        check_term: Raises DriverReplacedError if another driver has taken over the job.
    """

    def __init__(
        self,
        pending: PendingCheckpoints,
        attempt: LiveAttempt,
        failures: CheckpointFailures,
        ids: CheckpointIdCounter,
        storage: CheckpointStorageAccess,
        check_term: Callable[[], object],
    ) -> None:
        self._pending = pending
        self._attempt = attempt
        self._failures = failures
        self._ids = ids
        self._storage = storage
        self._check_term = check_term
        self._subtasks: frozenset[tuple[str, int]] = frozenset()

    def describe(self, tasks: list[TaskSpec]) -> None:
        """Record the job's tasks, whose subtasks must acknowledge."""
        self._subtasks = frozenset((task.uid, index) for task in tasks for index in range(task.parallelism))

    @property
    def subtask_count(self) -> int:
        """How many subtasks must acknowledge."""
        return len(self._subtasks)

    def trigger(self, request: CheckpointRequest) -> None:
        """Trigger a checkpoint that is due, and let it wait for its place."""
        try:
            checkpoint = self.prepare(request)
        except PystateError:  # the request has been answered
            return
        if not self._pending.wait_for_place(checkpoint):
            self._failures.fail_with_attempt(checkpoint)
            self._failures.discard(checkpoint)

    def prepare(self, request: CheckpointRequest) -> PendingCheckpoint:
        """Return the checkpoint for a request, with its directory made.

        Raises:
            PystateError: Its id can't be written down, the directory can't be made, or the job is another driver's; the
                checkpoint has failed.
        """
        checkpoint_id = self._id_for(request)
        if request.future.done():  # it was given up while the storage hung
            raise self._attempt.over()
        location = request.location or self._storage.checkpoint_location(checkpoint_id)
        checkpoint = PendingCheckpoint(
            checkpoint_id,
            checkpoint_type=request.checkpoint_type,
            format=request.format,
            trigger_timestamp=current_time_ms(),
            tasks=self._subtasks,
            location=location,
            message=request.message,
            request=request,
        )
        if not self._pending.take_in(checkpoint):
            self._failures.fail_with_attempt(checkpoint)
            raise self._attempt.over()
        try:
            self._check_term()
            location.create()
            checkpoint.created = True
        except PystateError as error:
            checkpoint.created = not isinstance(error, SnapshotExistsError)
            self._failures.fail(checkpoint, CheckpointFailureReason.IO_EXCEPTION, error)
            raise
        return checkpoint

    def _id_for(self, request: CheckpointRequest) -> int:
        try:
            return self._ids.get_and_increment()
        except OSError as error:
            failure = CheckpointFailedError(f"The id of the next checkpoint can't be written down: {error}.")
            self._failures.fail_request(request, failure)
            raise failure from error
