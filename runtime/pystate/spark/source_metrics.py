"""The metrics of stateless stages, which run in Spark's Python workers: each task of Spark hands in its own with its end.

Such a task lives for one epoch and one partition, so there is nobody to ask in between: what it counted travels in an
accumulator of Spark's, with the word that the task is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from pystate.metrics.catalog import BY_NAME
from pystate.metrics.sample import MetricKind, MetricSample, MetricValue, RateWindow, gauge

if TYPE_CHECKING:
    from pyspark import SparkContext

MAX_METRICS = 5000
"""About how many metrics are kept of one subtask of a stage, all operators together; later names are left out."""
_COUNTED = ("numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut", "accumulateBusyTimeMs")

StageReport = Callable[[int, list[MetricSample]], None]
"""Takes the number of a partition and what its task has measured."""
_SubtaskKey = tuple[str, int]
_SampleKey = tuple[str | None, tuple[tuple[str, str | None], ...], str, str]
_Sums = dict[_SubtaskKey, dict[_SampleKey, MetricValue]]


class _Merging(AccumulatorParam[_Sums]):
    """Adds what tasks have measured to what others had before."""

    def zero(self, value: _Sums) -> _Sums:
        return {}

    def addInPlace(self, value1: _Sums, value2: _Sums) -> _Sums:  # noqa: N802 - Spark's name
        # a new object each time: whoever reads the old one sees no half of a change
        merged = dict(value1)
        for subtask, samples in value2.items():
            before = merged.get(subtask, {})
            # each task of Spark's may bring new names for ever
            taken = {key: value for key, value in samples.items() if key in before or len(before) < MAX_METRICS}
            merged[subtask] = before | {key: _sum(key[3], before.get(key), value) for key, value in taken.items()}
        return merged


@dataclass(frozen=True)
class _Reporter:
    """Hands in what a task of one source's stage has measured; goes to the workers with the stage."""

    accumulator: Any
    uid: str
    parallelism: int

    def __call__(self, partition: int, samples: list[MetricSample]) -> None:
        told = {
            (one.operator, one.groups, one.name, one.kind.value): one.value
            for one in samples
            if one.groups or one.name in _COUNTED or one.name not in BY_NAME  # a task lives too short for rates
        }
        self.accumulator.add({(self.uid, partition % self.parallelism): told})


class SourceMetrics:
    """The metrics of the stateless stages of a job, as the driver gathers them.

    Args:
        context: Spark's.
        clock: Monotonic seconds.
    """

    def __init__(self, context: SparkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._accumulator = context.accumulator({}, _Merging())
        self._clock = clock
        self._windows: dict[tuple[_SubtaskKey, _SampleKey], RateWindow] = {}

    def reporter(self, uid: str, parallelism: int) -> StageReport:
        """Return what tasks of a source's stage report to; partitions count as subtasks, in turn.

        Args:
            uid: The source's uid.
            parallelism: How many subtasks.
        """
        return _Reporter(self._accumulator, uid, parallelism)

    def samples(self) -> Mapping[_SubtaskKey, list[MetricSample]]:
        """Return what has been gathered, by source and subtask. Rates are taken from one call to the next ones."""
        now = self._clock()
        return {subtask: self._of(subtask, sums, now) for subtask, sums in sorted(self._accumulator.value.items())}

    def _of(self, subtask: _SubtaskKey, sums: Mapping[_SampleKey, MetricValue], now: float) -> list[MetricSample]:
        samples = []
        for key, value in sums.items():
            operator, groups, name, kind = key
            sample = MetricSample(name, MetricKind(kind), value, operator, groups)
            if isinstance(value, dict) and sample.kind is MetricKind.METER:
                rate = self._rate(subtask, key, value["count"], now)
                sample = replace(sample, value={"rate": rate, "count": value["count"]})
            samples.append(sample)
            if not groups and name in _COUNTED and isinstance(value, int):
                rate = self._rate(subtask, key, value, now)
                named = "busyTimeMsPerSecond" if name == "accumulateBusyTimeMs" else f"{name}PerSecond"
                samples.append(replace(gauge(named, rate), operator=operator))
        return samples

    def _rate(self, subtask: _SubtaskKey, key: _SampleKey, count: float, now: float) -> float:
        window = self._windows.setdefault((subtask, key), RateWindow())
        window.update(now, count)
        return round(window.rate, 3)


def _sum(kind: str, before: MetricValue | None, value: MetricValue) -> MetricValue:
    if before is None or kind == MetricKind.GAUGE.value:
        return value
    if isinstance(before, dict) and isinstance(value, dict):
        if kind == MetricKind.METER.value:
            return {"rate": 0.0, "count": before["count"] + value["count"]}
        return _distributions(before, value)
    if isinstance(before, (int, float)) and isinstance(value, (int, float)):
        return before + value
    return value


def _distributions(before: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if not before["count"] or not value["count"]:
        return before if before["count"] else value
    return {
        "count": before["count"] + value["count"],
        "sum": before["sum"] + value["sum"],
        "min": min(before["min"], value["min"]),
        "max": max(before["max"], value["max"]),
    }
