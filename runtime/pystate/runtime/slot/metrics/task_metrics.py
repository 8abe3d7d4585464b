"""The metrics of one subtask: records, bytes and time by batch, and the metrics registered by its functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pystate.core.metrics.operator_metrics import OperatorMetrics
from pystate.core.metrics.rates import Rates
from pystate.core.metrics.sample import MetricKind, MetricSample, counter, gauge
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.slot.metrics.operator_counts import OperatorCounts

_COUNTED = ("numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut")
_NS_PER_MS = 1_000_000


class BusyTime:
    """Measures the time spent inside `with`."""

    def __init__(self) -> None:
        # earlier time, and the start of the current period; one object that is replaced, so that other threads see it
        # consistently
        self._state = (0, 0)

    def __enter__(self) -> None:
        """Begin."""
        self._state = (self._state[0], time.perf_counter_ns())

    def __exit__(self, *_: object) -> None:
        """End."""
        spent, since = self._state
        self._state = (spent + time.perf_counter_ns() - since, 0)

    def so_far_ns(self) -> int:
        """Return the measured time, including the current period; may be called from another thread."""
        spent, since = self._state
        return spent + (max(0, time.perf_counter_ns() - since) if since else 0)


class TaskMetrics:
    """The metrics of one subtask.

    The subtask's thread counts; another thread may call `collect`. All counts grow during the lifetime of the subtask, also
    if an epoch is rolled back and rerun.

    Args:
        task: The task.

    Attributes:
        busy: Measures the time spent on records and at the ends of epochs.
        idle: Measures the time without work, in a subtask that is not fed by epochs; see `begin_stream`.
        blocked_ns: How long such a subtask has waited for room in downstream tasks.
        operators: The metrics registered by the functions, by operator uid.
        state_samples: Returns the state backend's own metrics.
        watermarks: Returns the task's watermark and the one it has sent; None if the task has no event time.
    """

    def __init__(self, task: TaskSpec) -> None:
        self.busy = BusyTime()
        self.idle = BusyTime()
        self.blocked_ns = 0
        self.operators: dict[str, OperatorMetrics] = {}
        self.state_samples: Callable[[], Iterable[MetricSample]] = tuple
        self.watermarks: Callable[[], tuple[int, int]] | None = None
        self._uid = task.uid
        self._operator_counts = OperatorCounts(task)
        self._records_in = 0
        self._bytes_in = 0
        self._bytes_out = 0
        self._rows_out = {output.tag: 0 for output in task.outputs}
        self._epochs = 0
        self._last_epoch_ms = -1
        self._started_ns = time.perf_counter_ns()
        self._is_stream = False
        self._rates = Rates()

    def begin_stream(self) -> None:
        """From now on count all time as busy in which the subtask waits neither for work nor for room."""
        self._is_stream, self._started_ns = True, time.perf_counter_ns()

    # -- counting, on the subtask's thread

    def batch_in(self, rows: int, size: int) -> None:
        """Count an input batch of `size` bytes."""
        self._records_in += rows
        self._bytes_in += size

    def batch_out(self, tag: int, rows: int, size: int) -> None:
        """Count an output batch of `size` bytes."""
        self._rows_out[tag] += rows
        self._bytes_out += size

    def epoch_finished(self, duration_ms: int) -> None:
        """Count a finished epoch."""
        self._epochs += 1
        self._last_epoch_ms = duration_ms

    def sample_gauges(self) -> None:
        """Call the functions of all gauges, on the thread that runs the operators."""
        for operator in self.operators.values():
            operator.sample_gauges()

    # -- reporting

    def rows_out(self, rows_by_output: Mapping[int, int]) -> int:
        """Return how many rows the task has written; see `OperatorCounts.rows_out`."""
        return self._operator_counts.rows_out(rows_by_output)

    def totals(self) -> tuple[int, int]:
        """Return how many rows were read and written."""
        return self._records_in, self.rows_out(self._rows_out)

    def collect(self, now_s: float) -> list[MetricSample]:
        """Return all samples.

        Args:
            now_s: Monotonic seconds; rates are computed between calls.
        """
        counts = {
            "numRecordsIn": self._records_in,
            "numRecordsOut": self.rows_out(self._rows_out),
            "numBytesIn": self._bytes_in,
            "numBytesOut": self._bytes_out,
        }
        samples: list[MetricSample] = []
        for name in _COUNTED:
            samples += self._counted(None, name, counts[name], now_s)
        samples += self._times(now_s)
        samples.append(counter("numEpochs", self._epochs))
        samples.append(gauge("lastEpochDurationMs", self._last_epoch_ms))
        if self.watermarks is not None:
            names = ("currentInputWatermark", "currentOutputWatermark")
            samples += [gauge(name, watermark) for name, watermark in zip(names, self.watermarks(), strict=True)]
        rows_out: Mapping[int, int] = dict(self._rows_out)
        for uid, (read, written) in self._operator_counts.counts(counts["numRecordsIn"], rows_out).items():
            for name, count in (("numRecordsIn", read), ("numRecordsOut", written)):
                if count is not None:
                    samples += self._counted(uid, name, count, now_s)
        # keyed state is the head's, which has the task's uid
        samples += [replace(sample, operator=self._uid) for sample in self.state_samples()]
        for operator in list(self.operators.values()):
            operator.look(now_s)
            samples += operator.samples()
        return samples

    def _counted(self, uid: str | None, name: str, count: int, now_s: float) -> list[MetricSample]:
        rate = self._rates.of((uid, name), count, now_s)
        return [
            MetricSample(name, MetricKind.COUNTER, count, uid),
            MetricSample(f"{name}PerSecond", MetricKind.GAUGE, rate, uid),
        ]

    def _times(self, now_s: float) -> list[MetricSample]:
        lived_ns = time.perf_counter_ns() - self._started_ns
        if self._is_stream:
            blocked_ns = self.blocked_ns
            idle_ns = min(self.idle.so_far_ns(), lived_ns)
            busy_ns = max(0, lived_ns - idle_ns - blocked_ns)
        else:
            blocked_ns, busy_ns = 0, min(self.busy.so_far_ns(), lived_ns)
            idle_ns = lived_ns - busy_ns
        samples = []
        for name, spent_ns in (("Busy", busy_ns), ("Idle", idle_ns), ("BackPressured", blocked_ns)):
            spent_ms = spent_ns / _NS_PER_MS
            rate = min(1000.0, self._rates.of(name, spent_ms, now_s))
            samples.append(gauge(f"{name[0].lower()}{name[1:]}TimeMsPerSecond", rate))
            samples.append(counter(f"accumulate{name}TimeMs", int(spent_ms)))
        return samples
