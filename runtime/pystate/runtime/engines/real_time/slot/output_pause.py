"""A barrier that overtakes empties the way to the next tasks into their inputs: who filled it waits until there is room."""

from __future__ import annotations

from pystate.common.time import current_time_ms
from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.barrier_handler import Clock
from pystate.runtime.engines.real_time.slot.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.output_flush_interval import OutputFlushInterval


class OutputPause:
    """Whether one subtask produces results.

    Without it each checkpoint of a job whose sink is slow would move all that is on the way into the inputs, and the way
    would be full again until the next one: there would be more in flight with each of them.

    Args:
        settings: Say which barriers make room in front of the next tasks, and from when on.
        interval: Says whether those are behind.
        clock: Milliseconds since 1970.
    """

    def __init__(self, settings: InputSettings, interval: OutputFlushInterval, clock: Clock = current_time_ms) -> None:
        self._settings = settings
        self._interval = interval
        self._clock = clock
        self._behind: int | None = None
        self._over = -1  # the newest checkpoint that made room, or was given up

    @property
    def is_on(self) -> bool:
        """Whether it produces none."""
        return self._behind is not None

    def barrier_sent(self, barrier: CheckpointBarrier) -> None:
        """Begin behind a barrier that overtakes by now."""
        overtakes_at = self._settings.overtakes_at(barrier)
        if overtakes_at is not None and self._clock() >= overtakes_at:
            self.begin(barrier.checkpoint_id)

    def begin(self, checkpoint_id: int) -> None:
        """Begin because a checkpoint makes room, where the next tasks are behind."""
        if checkpoint_id > self._over and self._interval.is_behind:
            self._behind = checkpoint_id

    def end(self, checkpoint_id: int) -> None:
        """End what began behind the barrier of a checkpoint or before, and let nothing begin there any more."""
        self._over = max(self._over, checkpoint_id)
        if self._behind is not None and self._behind <= checkpoint_id:
            self._behind = None
