"""Computes when a subtask has to wake up because of time alone."""

from __future__ import annotations

import time

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import PipelineOptions
from pystate.common.time import current_time_ms
from pystate.runtime.slot.chain.operator_chain import OperatorChain


def earliest(*times: int | None) -> int | None:
    """Return the earliest of some times, ms since 1970; None for never."""
    return min((at for at in times if at is not None), default=None)


class DueTimes:
    """The due times of one subtask: processing-time timers, assigners that become idle, and their watermarks.

    Assigners emit watermarks every `pipeline.auto-watermark-interval`, first one interval after the first element, like
    Flink's `TimestampsAndWatermarksOperator`. With an interval of 0 they emit only the final watermark.

    Args:
        chain: The subtask's operator chain.
        configuration: The job's configuration.

    Attributes:
        at_end: Event time has ended, and nothing is due any more.
    """

    def __init__(self, chain: OperatorChain, configuration: Configuration) -> None:
        self.at_end = False
        self._chain = chain
        self._seen = 0
        self._interval_s = configuration.get(PipelineOptions.AUTO_WATERMARK_INTERVAL) / 1000
        self._emitted: float | None = None  # monotonic: a system clock that is set back must not hold up event time
        self._has_news = False

    def see(self) -> None:
        """Record that everything due by now is handled; call it before handling it."""
        self._seen = current_time_ms()

    def next(self) -> int | None:
        """Return the next due time, ms since 1970; None for never. It may be in the past."""
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
        """Return whether assigners emit their watermarks now, with everything else; otherwise schedule them for `next`."""
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
