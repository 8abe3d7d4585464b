"""The metrics of a job's subtasks, as their slots report them, over all attempts of the job in one driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pystate.common.text.plain_data import PlainDataError
from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.sample import MetricKind, MetricSample
from pystate.core.metrics.store import SubtaskMetricStore

logger = logging.getLogger(__name__)

SubtaskId = tuple[str, int]
_CounterId = tuple[str | None, str]


class SlotMetrics:
    """Collects the latest report of every subtask.

    pystate's own counters continue over restarts of the job: the counts of earlier attempts are added to those of the
    current one. Metrics of functions are reset with every attempt, as in Flink.

    Slots report each second, and hardly anybody reads: what is reported is kept as bytes until somebody does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempt = -1
        self._latest: dict[SubtaskId, SubtaskMetricStore] = {}
        self._unread: dict[SubtaskId, bytes] = {}
        self._before: dict[SubtaskId, dict[_CounterId, int]] = {}
        self._hosts: dict[SubtaskId, str | None] = {}

    def begin_attempt(self, attempt: int) -> None:
        """Accept only reports of this attempt from now on."""
        with self._lock:
            for subtask in list(self._unread):
                self._read(subtask)
            for subtask, report in self._latest.items():
                before = self._before.setdefault(subtask, {})
                self._hosts[subtask] = report.host
                for sample in filter(_is_own_counter, report.samples):
                    key = (sample.operator, sample.name)
                    before[key] = before.get(key, 0) + _count(sample)
            self._latest = {}
            self._attempt = attempt

    def report(self, attempt: int, slot: int, report: Mapping[str, bytes]) -> None:
        """Process the metrics of a heartbeat or of the end of a slot. Malformed ones are dropped when they are read.

        Args:
            attempt: Whose slot it is.
            slot: Which, and so which subtask of each of its tasks it has.
            report: Its subtasks by the uids of their tasks, packed.
        """
        told = {(uid, slot): packed for uid, packed in report.items()}
        with self._lock:
            if attempt == self._attempt:
                self._unread.update(told)

    def of(self, uid: str, subtask: int) -> SubtaskMetricStore:
        """Return the last samples of a subtask, including the counts of previous attempts."""
        with self._lock:
            self._read((uid, subtask))
            report = self._latest.get((uid, subtask))
            before = dict(self._before.get((uid, subtask), {}))
            host = self._hosts.get((uid, subtask))
        if report is None:
            return SubtaskMetricStore(subtask, host, [_counter(*key, count) for key, count in before.items()])
        return replace(report, samples=list(_added(report.samples, before)))

    def _read(self, subtask: SubtaskId) -> None:
        """Read a subtask's last report, if it hasn't been read yet; called under the lock."""
        packed = self._unread.pop(subtask, None)
        if packed is None:
            return
        try:
            self._latest[subtask] = SubtaskMetricStore.unpacked(packed)
        except PlainDataError as error:
            logger.warning("a slot's metrics can't be read: %s", error)


def _added(samples: Iterable[MetricSample], before: Mapping[_CounterId, int]) -> Iterable[MetricSample]:
    for sample in samples:
        earlier = before.get((sample.operator, sample.name)) if _is_own_counter(sample) else None
        yield sample if earlier is None else replace(sample, value=_count(sample) + earlier)


def _is_own_counter(sample: MetricSample) -> bool:
    return sample.kind is MetricKind.COUNTER and system_metric(sample.name, sample.groups) is not None


def _count(sample: MetricSample) -> int:
    return int(sample.value) if isinstance(sample.value, (int, float)) else 0


def _counter(operator: str | None, name: str, count: int) -> MetricSample:
    return MetricSample(name, MetricKind.COUNTER, count, operator)
