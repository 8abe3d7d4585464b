"""Decides when a checkpoint may start: periodic ones by timetable, savepoints at once, all others in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pystate.core.snapshot.metadata import CheckpointType

MAX_QUEUED_REQUESTS = 1000


class QueuedRequest(Protocol):
    """A request as the decider sees it."""

    @property
    def checkpoint_type(self) -> CheckpointType:
        """Checkpoint or savepoint."""


R = TypeVar("R", bound=QueuedRequest)


class CheckpointRequestDecider(Generic[R]):
    """The queue of waiting requests and the timetable of periodic checkpoints.

    Savepoints precede everything and start while a checkpoint is running. A requested checkpoint starts when fewer than
    `max_concurrent` are pending. A periodic one starts when, in addition, it is due and `min_pause_ms` have passed since the
    last checkpoint completed. Flink's rules: an interval below the pause is raised to it, a pause means one checkpoint at a
    time, savepoints don't count for the pause, a start delayed by the pause shifts the timetable. Missed ticks are skipped,
    not made up for.

    Args:
        clock: Milliseconds, monotonic.
        periodic_request: Creates the request of a periodic checkpoint.
        interval_ms: From one periodic start to the next; None for no periodic checkpoints.
        min_pause_ms: From the completion of a checkpoint to the next periodic start.
        max_concurrent: The maximum number of concurrent checkpoints.
        max_queued: The maximum number of waiting requests.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        periodic_request: Callable[[], R],
        *,
        interval_ms: int | None,
        min_pause_ms: int = 0,
        max_concurrent: int = 1,
        max_queued: int = MAX_QUEUED_REQUESTS,
    ) -> None:
        self._clock = clock
        self._periodic_request = periodic_request
        self._interval_ms = None if interval_ms is None else max(interval_ms, min_pause_ms)
        self._min_pause_ms = min_pause_ms
        self._max_concurrent = 1 if min_pause_ms > 0 else max_concurrent
        self._max_queued = max_queued
        self._savepoints: deque[R] = deque()
        self._checkpoints: deque[R] = deque()
        self._tick: int | None = None
        self._last_completion: int | None = None

    def restart(self, now: int | None = None) -> None:
        """Start the timetable: the first periodic checkpoint is due one interval from now. Waiting requests stay.

        Args:
            now: The clock's time, where the caller has it at hand.
        """
        self._last_completion = None
        self._tick = None if self._interval_ms is None else (self._clock() if now is None else now) + self._interval_ms

    def stop(self) -> list[R]:
        """Stop the timetable; return the waiting requests, which will not be started."""
        self._tick = None
        waiting = [*self._savepoints, *self._checkpoints]
        self._savepoints.clear()
        self._checkpoints.clear()
        return waiting

    @property
    def queued_count(self) -> int:
        """The number of waiting requests."""
        return len(self._savepoints) + len(self._checkpoints)

    def submit(self, request: R) -> R | None:
        """Enqueue a request; if the queue is full, return the rejected one: this, or the last checkpoint for a savepoint."""
        is_savepoint = request.checkpoint_type is CheckpointType.SAVEPOINT
        rejected: R | None = None
        if self.queued_count >= self._max_queued:
            if not (is_savepoint and self._checkpoints):
                return request
            rejected = self._checkpoints.pop()
        (self._savepoints if is_savepoint else self._checkpoints).append(request)
        return rejected

    def next_request(self, in_progress: int) -> R | None:
        """Remove and return the request that is to be started now; None if none may.

        Args:
            in_progress: How many checkpoints and savepoints are under way.
        """
        if self._savepoints:
            return self._savepoints.popleft()
        if in_progress >= self._max_concurrent:
            return None
        if self._checkpoints:
            return self._checkpoints.popleft()
        due, interval, now = self.next_periodic_time(), self._interval_ms, self._clock()
        if due is None or interval is None or now < due:
            return None
        self._tick = due + interval * ((now - due) // interval + 1)
        return self._periodic_request()

    def report_completed(self, checkpoint_type: CheckpointType) -> None:
        """Record that a checkpoint completed, from which the minimum pause is measured, as in Flink."""
        if checkpoint_type is CheckpointType.CHECKPOINT:
            self._last_completion = self._clock()

    def next_periodic_time(self) -> int | None:
        """Return when the next periodic checkpoint is due, in the clock's milliseconds; None if there is none."""
        if self._tick is None:
            return None
        if self._last_completion is None:
            return self._tick
        return max(self._tick, self._last_completion + self._min_pause_ms)

    def wait_ms(self, in_progress: int) -> int | None:
        """Return how long nothing can start unless something happens; None if only an event can change that."""
        if self._savepoints:
            return 0
        if in_progress >= self._max_concurrent:
            return None
        if self._checkpoints:
            return 0
        due = self.next_periodic_time()
        return None if due is None else max(0, due - self._clock())
