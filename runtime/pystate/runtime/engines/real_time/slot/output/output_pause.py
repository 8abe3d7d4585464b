"""Pauses a subtask's output after an overtaking barrier until the downstream tasks have room again."""

from __future__ import annotations

from pystate.common.time import current_time_ms
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.barrier_handler import Clock
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.output.output_flush_interval import OutputFlushInterval


class OutputPause:
    """Whether the output of one subtask is paused.

    An overtaking barrier moves all data in the network into the inputs of the downstream tasks. Without the pause, a job
    with a slow sink would fill the network again before the next checkpoint, and the in-flight data would grow with each
    one.

    Args:
        settings: Determine the barriers that make downstream inputs accept data beyond the limit, and from when on.
        interval: Determines whether the downstream tasks lag behind.
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, settings: InputSettings, interval: OutputFlushInterval, clock: Clock = current_time_ms) -> None:
        self._settings = settings
        self._interval = interval
        self._clock = clock
        self._checkpoint: int | None = None
        self._over = -1  # the newest checkpoint whose pause is over, or that was cancelled

    @property
    def is_on(self) -> bool:
        """Whether the output is paused."""
        return self._checkpoint is not None

    def barrier_sent(self, barrier: CheckpointBarrier) -> None:
        """Begin the pause after a barrier that overtakes by now."""
        overtakes_at = self._settings.overtakes_at(barrier)
        if overtakes_at is not None and self._clock() >= overtakes_at:
            self.begin(barrier.checkpoint_id)

    def begin(self, checkpoint_id: int) -> None:
        """Begin the pause for an overtaking checkpoint if the downstream tasks lag behind."""
        if checkpoint_id > self._over and self._interval.downstream_lags:
            self._checkpoint = checkpoint_id

    def end(self, checkpoint_id: int) -> None:
        """End the pause of that checkpoint and of older ones, and don't begin one for them again."""
        self._over = max(self._over, checkpoint_id)
        if self._checkpoint is not None and self._checkpoint <= checkpoint_id:
            self._checkpoint = None
