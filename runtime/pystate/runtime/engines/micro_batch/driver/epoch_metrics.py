"""Metrics of epochs, and of the stages upstream of the slots."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pystate.core.metrics.sample import MetricSample, counter, gauge
from pystate.runtime.spark.source_metrics import SourceMetrics

if TYPE_CHECKING:
    from pyspark import SparkContext

_RECENT_EPOCHS = 120


class EpochMetrics:
    """The metrics of one job's epochs in one driver.

    Args:
        context: The Spark context.
        clock: Returns monotonic seconds.

    Attributes:
        sources: The metrics of the stateless stages upstream of the slots.
    """

    def __init__(self, context: SparkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self.sources = SourceMetrics(context, clock)
        self._clock = clock
        self._positions: Callable[[], Mapping[str, list[MetricSample]]] = dict
        self._lock = threading.Lock()
        self._begun = 0.0
        self._epochs = 0
        self._last_epoch = -1
        self._last_duration_ms = -1
        self._running = False
        self._recent_ms: deque[int] = deque(maxlen=_RECENT_EPOCHS)

    @property
    def epochs(self) -> int:
        """The number of epochs that this driver has finished."""
        with self._lock:
            return self._epochs

    def query_started(self, positions: Callable[[], Mapping[str, list[MetricSample]]]) -> None:
        """Record how a query is asked for the metrics of its sources' positions, by a source's uid."""
        self._positions = positions

    def epoch_begun(self) -> None:
        """Record that an epoch begins."""
        with self._lock:
            self._begun, self._running = self._clock(), True
        self.sources.epoch_begun()

    def attempt_over(self) -> None:
        """Record that the running epoch, if any, will not end."""
        self._positions = dict
        with self._lock:
            self._running = False

    def epoch_times(self) -> dict[str, Any]:
        """Return `epoch_durations`, of the last epochs in ms, and `epoch_running`, the age of the running epoch in ms."""
        with self._lock:
            running = int((self._clock() - self._begun) * 1000) if self._running else None
            return {"epoch_durations": list(self._recent_ms), "epoch_running": running}

    def epoch_finished(self, epoch: int) -> None:
        """Record that all subtasks and sinks have finished an epoch."""
        with self._lock:
            self._epochs += 1
            self._last_epoch = epoch
            self._last_duration_ms = int((self._clock() - self._begun) * 1000)
            self._recent_ms.append(self._last_duration_ms)
            self._running = False
        self.sources.samples()  # each call takes the rates since the previous one

    def job_samples(self) -> list[MetricSample]:
        """Return the metrics of the whole job."""
        with self._lock:
            return [
                counter("numberOfFinishedEpochs", self._epochs),
                gauge("lastFinishedEpoch", self._last_epoch),
                gauge("lastEpochDuration", self._last_duration_ms),
            ]

    def source_samples(self) -> Mapping[tuple[str, int], list[MetricSample]]:
        """Return the metrics of stages upstream of the slots, by source uid and subtask; a source's own with the first."""
        found = dict(self.sources.samples())
        for uid, samples in self._positions().items():
            found[uid, 0] = [*found.get((uid, 0), ()), *samples]
        return found
