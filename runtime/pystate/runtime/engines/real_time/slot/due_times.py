"""When time alone brings something about in a subtask, and so when it has to be awake."""

from __future__ import annotations

import time

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_options import PipelineOptions
from pystate.common.time import current_time_ms
from pystate.runtime.slot.chain.operator_chain import OperatorChain


def earliest(*times: int | None) -> int | None:
    """Return the first of some times, ms since 1970; None for never."""
    return min((at for at in times if at is not None), default=None)


class DueTimes:
    """Those of one subtask: timers by the clock, assigners that become idle, and the watermarks that they make.

    The watermarks of assigners go out every `pipeline.auto-watermark-interval`, the first ones so long behind the first
    element, as from Flink's `TimestampsAndWatermarksOperator`. With an interval of 0 none do but that of the end.

    Args:
        chain: Of the subtask.
        configuration: Of the job.

    Attributes:
        at_end: Event time has come to its end, and nothing is due any more.
    """

    def __init__(self, chain: OperatorChain, configuration: Configuration) -> None:
        self.at_end = False
        self._chain = chain
        self._seen = 0
        self._interval_s = configuration.get(PipelineOptions.AUTO_WATERMARK_INTERVAL) / 1000
        self._emitted: float | None = None  # by the monotonic clock: one that is set back must not hold up event time
        self._has_news = False

    def see(self) -> None:
        """Take note that all that is due by now is seen to; called in front of that."""
        self._seen = current_time_ms()

    def next(self) -> int | None:
        """Return when the next one is due, ms since 1970; None for never. It may be past."""
        if self.at_end:
            return None
        idle = self._chain.assigners.next_idle(self._seen)
        return earliest(self._chain.next_processing_time_timer(), idle, self._next_emit())

    @property
    def is_over(self) -> bool:
        """Whether something is due by now."""
        due = self.next()
        return due is not None and due <= current_time_ms()

    def on_periodic_emit(self) -> bool:
        """Return whether the watermarks of assigners go out now, with all else; if not, `next` says when they are to."""
        assigners, now = self._chain.assigners, time.monotonic()
        if not assigners.by_uid or not self._interval_s:
            return False
        if self._emitted is None:
            self._emitted = now
        self._has_news = now - self._emitted < self._interval_s
        if self._has_news:
            return False
        self._emitted = now
        assigners.on_periodic_emit()
        return True

    def _next_emit(self) -> int | None:
        if not self._has_news or self._emitted is None:
            return None
        left_s = max(0.0, self._emitted + self._interval_s - time.monotonic())
        return current_time_ms() + int(left_s * 1000) + 1
