"""Decides what the coordinator does next, and when it looks again.

One step at a time accesses the storage, which may hang; a step that hangs longer than the checkpoint timeout is overtaken by
the next. The timeout of a checkpoint runs only while its barrier doesn't wait for a place. A subtask that has received the
barrier has the same timeout for its synchronous part; if it exceeds it, the subtask hangs, and the attempt fails.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.coordinator_steps import (
    CompleteCheckpoint,
    CoordinatorStep,
    DiscardLateParts,
    FailCheckpoint,
    GiveUpStorageStep,
    PlaceBarrier,
    StorageStep,
    TriggerCheckpoint,
)
from pystate.runtime.checkpoint.late_acknowledgements import LateAcknowledgements
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.checkpoint.request_decider import CheckpointRequestDecider

_COMMIT_POLL_S = 0.01
_IDLE_WAIT_S = 1.0


class CheckpointSchedule:
    """Decides which step comes next.

    Args:
        pending: The pending checkpoints.
        attempt: The current attempt.
        decider: The queued requests.
        late: Files to be deleted after failed checkpoints.
        timeout_s: How long a checkpoint may take, and a step in the storage.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        pending: PendingCheckpoints,
        attempt: LiveAttempt,
        decider: CheckpointRequestDecider[CheckpointRequest],
        late: LateAcknowledgements,
        timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._pending = pending
        self._lock = pending.lock
        self._attempt = attempt
        self._decider = decider
        self._late = late
        self._timeout_s = timeout_s
        self._clock = clock
        self._storage_step: StorageStep | None = None  # runs on its own thread
        self._storage_deadline = 0.0
        self._closed = False

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Enqueue a request; return a request that is rejected for lack of room, this one or another.

        Raises:
            AttemptOverError: No attempt runs.
        """
        with self._lock:
            self._attempt.check_runs()
            rejected = self._decider.submit(request)
            self._lock.notify_all()
        return rejected

    def await_step(self) -> CoordinatorStep | None:
        """Wait for the next step and return it; None after `close`."""
        while True:
            self._pending.settle_cuts()
            with self._lock:
                if self._closed:
                    return None
                step = self.next_step()
                if step is not None:
                    return step
                self._lock.wait(self._wait_s())

    def next_step(self) -> CoordinatorStep | None:
        """Return the step to be done now; None if there is none."""
        with self._lock:
            return self._failure() or self._place() or self._next_storage_step()

    def storage_done(self, step: StorageStep) -> None:
        """Record that a storage step is over, so that the next one may begin; does nothing if it was given up."""
        with self._lock:
            if self._storage_step is step:
                self._begin_storage_step(None)
            self._lock.notify_all()

    def close(self) -> None:
        """End `await_step`: there is nothing to do any more."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def await_storage(self, timeout_s: float) -> None:
        """Wait, after `close`, for the running storage step."""
        with self._lock:
            self._lock.wait_for(lambda: self._storage_step is None, timeout_s)

    # -- under the lock

    def _failure(self) -> CoordinatorStep | None:
        now, barriers = self._clock(), self._attempt.barriers
        for checkpoint in self._pending:
            syncing = barriers is not None and barriers.is_placing(checkpoint)
            failure = checkpoint.failure(now, self._timeout_s, syncing=syncing)
            if failure is not None:
                return FailCheckpoint(checkpoint, *failure)
        return None

    def _place(self) -> CoordinatorStep | None:
        barriers = self._attempt.barriers
        due = None if barriers is None else barriers.due()
        return None if due is None else PlaceBarrier(due)

    def _next_storage_step(self) -> CoordinatorStep | None:
        hung = self._storage_step
        if hung is not None and self._clock() < self._storage_deadline:
            return None
        if hung is not None:
            self._begin_storage_step(None)
            return GiveUpStorageStep(hung)
        step = self._complete() or self._discard() or self._trigger()
        self._begin_storage_step(step)
        return step

    def _begin_storage_step(self, step: StorageStep | None) -> None:
        self._storage_step = step
        self._storage_deadline = self._clock() + self._timeout_s
        self._pending.is_triggering = isinstance(step, TriggerCheckpoint)

    def _complete(self) -> StorageStep | None:
        for checkpoint in self._pending:
            whole = checkpoint.committed and checkpoint.is_fully_acknowledged
            if whole and self._attempt.runs and not checkpoint.finalizing:
                return CompleteCheckpoint(checkpoint)
        return None

    def _discard(self) -> StorageStep | None:
        late = self._late.take()
        return DiscardLateParts(late) if late else None

    def _trigger(self) -> StorageStep | None:
        barriers = self._attempt.barriers
        if barriers is None or not barriers.takes_next or barriers.brings_own:
            return None
        request = self._decider.next_request(len(self._pending))
        return None if request is None else TriggerCheckpoint(request)

    def _wait_s(self) -> float:
        if any(one.cut is not None and not one.committed for one in self._pending):
            return _COMMIT_POLL_S
        times = [at for one in self._pending for at in one.deadlines(self._timeout_s)]
        if self._storage_step is not None:
            times.append(self._storage_deadline)
        wait_s = max(0.0, min([_IDLE_WAIT_S, *(at - self._clock() for at in times)]))
        barriers = self._attempt.barriers
        if barriers is None or not barriers.takes_next or self._storage_step is not None:
            return wait_s
        wait_ms = self._decider.wait_ms(len(self._pending))
        return wait_s if wait_ms is None else min(wait_s, wait_ms / 1000)
