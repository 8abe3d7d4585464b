"""The metrics of stateless stages, which run in Spark's Python workers: each Spark task reports its own at its end.

Such a task lives for one epoch and one partition, so it can't be polled: its counts are sent in a Spark accumulator, with
the task's completion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.rates import Rates
from pystate.core.metrics.sample import MetricKind, MetricSample, MetricValue, SampleKey, gauge
from pystate.core.metrics.sums import plus

if TYPE_CHECKING:
    from pyspark import SparkContext

MAX_METRICS = 5000
"""The approximate limit of metrics per subtask of a stage, over all operators; later names are dropped."""
_ALL_OF_A_SECOND_MS = 1000.0
_COUNTED = ("numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut", "accumulateBusyTimeMs")

StageReport = Callable[[int, list[MetricSample]], None]
"""(partition number, samples of its task) -> None."""
_SubtaskKey = tuple[str, int]
_Sums = dict[_SubtaskKey, dict[SampleKey, MetricValue]]


class _Merging(AccumulatorParam[_Sums]):
    """Merges the samples of tasks."""

    def zero(self, value: _Sums) -> _Sums:
        return {}

    def addInPlace(self, value1: _Sums, value2: _Sums) -> _Sums:  # noqa: N802 - Spark's name
        # a new object each time, so that concurrent readers never see a partial change
        merged = dict(value1)
        for subtask, samples in value2.items():
            before = merged.get(subtask, {})
            # each Spark task may bring new names, without end
            taken = {key: value for key, value in samples.items() if key in before or len(before) < MAX_METRICS}
            for key, value in taken.items():
                *_, kind = key
                taken[key] = plus(kind, before.get(key), value)
            merged[subtask] = before | taken
        return merged


@dataclass(frozen=True)
class _Reporter:
    """Reports the samples of a task of one source's stage; is sent to the workers with the stage."""

    accumulator: Any
    uid: str
    parallelism: int

    def __call__(self, partition: int, samples: list[MetricSample]) -> None:
        told = {
            one.key: one.value
            for one in samples
            if one.name in _COUNTED or system_metric(one.name, one.groups) is None  # a task is too short-lived for rates
        }
        self.accumulator.add({(self.uid, partition % self.parallelism): told})


class SourceMetrics:
    """The metrics of the stateless stages of a job, collected in the driver.

    Args:
        context: The Spark context.
        clock: Monotonic seconds.
    """

    def __init__(self, context: SparkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._accumulator = context.accumulator({}, _Merging())
        self._clock = clock
        self._rates = Rates()
        self._begun: float | None = None

    def epoch_begun(self) -> None:
        """Record that tasks begin: what one of them is the first to count was 0 until now."""
        self._begun = self._clock()

    def reporter(self, uid: str, parallelism: int) -> StageReport:
        """Return the reporter for tasks of a source's stage; partitions are mapped to subtasks in turn.

        Args:
            uid: The source's uid.
            parallelism: The number of subtasks.
        """
        return _Reporter(self._accumulator, uid, parallelism)

    def samples(self) -> Mapping[_SubtaskKey, list[MetricSample]]:
        """Return the collected samples, by source and subtask. Rates are computed between calls."""
        now = self._clock()
        return {subtask: self._of(subtask, sums, now) for subtask, sums in sorted(self._accumulator.value.items())}

    def _of(self, subtask: _SubtaskKey, sums: Mapping[SampleKey, MetricValue], now: float) -> list[MetricSample]:
        samples = []
        for key, value in sums.items():
            operator, groups, name, kind = key
            sample = MetricSample(name, kind, value, operator, groups)
            if isinstance(value, dict) and sample.kind is MetricKind.METER:
                rate = self._rates.of((subtask, key), value["count"], now)
                sample = replace(sample, value={"rate": rate, "count": value["count"]})
            samples.append(sample)
            if not groups and name in _COUNTED and isinstance(value, int):
                rate, named = self._rates.of((subtask, key), value, now, self._begun), f"{name}PerSecond"
                if name == "accumulateBusyTimeMs":  # of long tasks, and of several at a time, all at their end
                    rate, named = min(_ALL_OF_A_SECOND_MS, rate), "busyTimeMsPerSecond"
                samples.append(replace(gauge(named, rate), operator=operator))
        return samples
