"""Places barriers in the real-time engine: in each source, after what it has emitted when the coordinator asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints


class Slots(Protocol):
    """The slots of an attempt."""

    def call_all(self, op: str, arguments: Callable[[int], dict[str, Any]]) -> object:
        """Call all slots at the same time and wait for their answers."""


class SourceBarriers:
    """The `BarrierPlacement` of an attempt; its methods run under the coordinator's lock.

    Args:
        pending: The pending checkpoints.
        slots: The attempt's slots.
        mark: See `SourcesInSlots`.
        sent: Called with each barrier that was sent.
    """

    def __init__(
        self,
        pending: PendingCheckpoints,
        slots: Slots,
        mark: Callable[[], Callable[[], bool]],
        sent: Callable[[CheckpointBarrier], None] = lambda _: None,
    ) -> None:
        self._sent = sent
        self._pending = pending
        self._lock = pending.lock
        self._slots = slots
        self._mark = mark
        self._waiting: PendingCheckpoint | None = None
        self._placing: PendingCheckpoint | None = None
        self._closed = False  # event time has ended: only the barrier that has been sent may still come
        self._over = False
        self._last: PendingCheckpoint | None = None  # subtasks wait after its barrier: nothing may come, unless it fails
        self._told = 0  # the newest checkpoint that all sources know
        self._one_by_one = threading.Lock()  # barriers reach each source in the order of their numbers

    # -- called by the coordinator

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place and another one may be added."""
        # after the last savepoint no barrier may come: its checkpoint would be later than that savepoint
        is_last_placed = self._last is not None and not self._last.is_aborted
        return self._waiting is None and not self._closed and not is_last_placed

    @property
    def takes_next(self) -> bool:
        """Whether no savepoint is pending: a newer barrier would end its alignment where it arrives first."""
        return self.is_open and not self._pending.has_savepoint

    @property
    def brings_own(self) -> bool:
        """Whether event time ends before a barrier that has been sent."""
        return self._closed

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> None:
        """Have a barrier wait for the thread that sends it."""
        self._waiting = checkpoint

    def due(self) -> PendingCheckpoint | None:
        """Return the barrier that can be sent, once the previous one has been sent everywhere."""
        return self._waiting if self._placing is None and not self._closed else None

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Return the call that sends a barrier; None if it is too late for it."""
        if self._over or self._closed or self._waiting is not checkpoint:
            return None
        self._waiting, self._placing = None, checkpoint
        if checkpoint.request.hold:
            self._last = checkpoint
        self._pending.resume_timeout(checkpoint)
        return lambda: self._send(checkpoint)

    def is_placing(self, checkpoint: PendingCheckpoint) -> bool:
        """Whether the sources are being told about the checkpoint."""
        return self._placing is checkpoint

    def withdraw(self, checkpoint: PendingCheckpoint) -> None:
        """Forget a checkpoint that has ended."""
        self._waiting = None if self._waiting is checkpoint else self._waiting
        self._placing = None if self._placing is checkpoint else self._placing

    def waits(self) -> dict[str, int]:
        """Return nothing: a barrier is sent at once."""
        return {}

    def end(self) -> None:
        """End the attempt."""
        self._over = True
        self._waiting = self._placing = None

    # -- called by the engine

    def drain(self, savepoint: CheckpointRequest, prepare: Callable[[CheckpointRequest], PendingCheckpoint]) -> None:
        """End event time, send the barrier of a savepoint after it, and accept no other one.

        Args:
            savepoint: The request.
            prepare: Creates the checkpoint.

        Raises:
            AttemptOverError: The attempt is over.
            PystateError: The savepoint can't be created, and the job continues; or slots failed.
        """
        with self._one_by_one:
            with self._lock:
                if self._over:
                    message = "The execution attempt is over."
                    raise AttemptOverError(message)
                self._closed = True
            try:
                checkpoint = prepare(savepoint)
            except BaseException:
                with self._lock:
                    self._closed = False
                    self._lock.notify_all()
                raise
            self._slots.call_all("drain", lambda _: {})
            self._tell_sources(checkpoint)

    def release_if_failed(self) -> None:
        """Let subtasks continue if the savepoint that they wait for has failed."""
        with self._lock:
            last = self._last
            if last is None or not last.is_aborted or self._told < last.checkpoint_id or self._over:
                return
            self._last = None
        self._slots.call_all("resume", lambda _: {"checkpoint_id": last.checkpoint_id})

    def _send(self, checkpoint: PendingCheckpoint) -> None:
        failure: tuple[CheckpointFailureReason, PystateError] | None = None
        try:
            with self._one_by_one:
                self._tell_sources(checkpoint)
        except PystateError as error:
            failure = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, error
        except Exception as broken:
            unsent = CheckpointFailedError(f"The sources could not be told of it: {broken!r}")
            failure = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, unsent
        with self._lock:
            if failure is not None:
                checkpoint.give_up(*failure)
            if self._placing is checkpoint:
                self._placing = None
            self._lock.notify_all()

    def _tell_sources(self, checkpoint: PendingCheckpoint) -> None:
        checkpoint.capture(lambda: SourcesInSlots(checkpoint, self._mark))
        barrier = self._pending.barrier(checkpoint)
        plain = barrier.to_plain()
        try:
            self._slots.call_all("trigger_checkpoint", lambda _: {"barrier": plain})
        finally:
            with self._lock:
                self._told = barrier.checkpoint_id
        self._sent(barrier)


class SourcesInSlots:
    """A `SourceCut` without content: each source subtask stores its position in its own part of the checkpoint.

    Args:
        checkpoint: The checkpoint.
        mark: Called once all subtasks have acknowledged, when all output before their barriers has reached the driver;
            returns a function that tells whether all of it has been handed over.
    """

    def __init__(self, checkpoint: PendingCheckpoint, mark: Callable[[], Callable[[], bool]]) -> None:
        self._checkpoint = checkpoint
        self._mark = mark
        self._handed_over: Callable[[], bool] | None = None

    def settle(self) -> bool:
        """Return whether the cut can be restored from: all output before it has been handed over."""
        if not self._checkpoint.is_fully_acknowledged:
            return False
        if self._handed_over is None:
            self._handed_over = self._mark()
        return self._handed_over()

    def archive(self) -> bytes:
        """Return nothing."""
        return b""

    def position(self, handle: StateHandle) -> SourcePosition | None:
        """Return None: Spark has read nothing."""
        del handle
        return None
