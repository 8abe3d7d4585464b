"""The coordinator's thread, which executes one step after the other, as decided by `CheckpointSchedule`."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

from pystate.common.errors import CheckpointFailedError
from pystate.runtime.checkpoint.checkpoint_completion import CheckpointCompletion
from pystate.runtime.checkpoint.checkpoint_failures import CheckpointFailures, answer
from pystate.runtime.checkpoint.checkpoint_schedule import CheckpointSchedule
from pystate.runtime.checkpoint.checkpoint_trigger import CheckpointTrigger
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
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints


class CoordinatorThread:
    """Executes steps. Steps that may hang run on their own threads, so that checkpoints can still expire.

    Args:
        schedule: Decides which step comes next.
        attempt: The current attempt, whose engine places barriers.
        trigger: Triggers checkpoints.
        completion: Completes them.
        failures: Fails them.
        points: Deletes the remains of failed ones.
        timeout_s: How long a storage step may take, for messages.
    """

    def __init__(
        self,
        schedule: CheckpointSchedule,
        attempt: LiveAttempt,
        trigger: CheckpointTrigger,
        completion: CheckpointCompletion,
        failures: CheckpointFailures,
        points: RestorePoints,
        timeout_s: float,
    ) -> None:
        self._schedule = schedule
        self._attempt = attempt
        self._trigger = trigger
        self._completion = completion
        self._failures = failures
        self._points = points
        self._timeout_s = timeout_s
        self._thread = threading.Thread(target=self._loop, name="checkpoint-coordinator", daemon=True)

    def start(self) -> None:
        """Start executing steps."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop executing steps; wait for the running ones, up to a timeout."""
        self._schedule.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._schedule.await_storage(timeout_s)

    def _loop(self) -> None:
        while (step := self._schedule.await_step()) is not None:
            try:
                self.take(step)
            except Exception:  # an error of one checkpoint must not prevent later ones; it is logged
                traceback.print_exc()

    def take(self, step: CoordinatorStep) -> None:
        """Execute a step."""
        match step:
            case PlaceBarrier(checkpoint):
                self.place(checkpoint)
            case FailCheckpoint(checkpoint, reason, error, fails_attempt):
                self._failures.fail(checkpoint, reason, error, fails_attempt=fails_attempt)
            case GiveUpStorageStep(hung):
                self._give_up(hung)
            case TriggerCheckpoint() | CompleteCheckpoint() | DiscardLateParts():
                _beside(lambda: self._use_storage(step))

    def place(self, checkpoint: PendingCheckpoint) -> None:
        """Have the engine place a barrier, see `BarrierPlacement.place`; does nothing if that isn't possible any more."""
        ask = self._attempt.place(checkpoint)
        if ask is not None:
            _beside(ask)

    def _use_storage(self, step: StorageStep) -> None:
        try:
            match step:
                case TriggerCheckpoint(request):
                    self._trigger.trigger(request)
                case CompleteCheckpoint(checkpoint):
                    self._completion.complete(checkpoint)
                case DiscardLateParts(locations):
                    self._points.discard_failed(locations)
        finally:
            self._schedule.storage_done(step)

    def _give_up(self, hung: StorageStep) -> None:
        """Let other steps overtake one that hangs in the storage; its checkpoint expires by itself."""
        sys.stderr.write(f"WARNING: the checkpoint storage has not answered for {self._timeout_s:g} s.\n")
        if isinstance(hung, TriggerCheckpoint):
            timeout = f"The checkpoint could not be triggered within {self._timeout_s:g} s."
            answer(hung.request, CheckpointFailedError(timeout, hint="look at the storage of checkpoints and of the job"))


def _beside(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="checkpoint-coordinator-call", daemon=True).start()
