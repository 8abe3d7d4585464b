"""The metrics of functions: counters, gauges, meters, distributions, in groups.

Names and signatures are PyFlink's. A group comes from `runtime_context.get_metrics_group()`, in `open`; the metrics are
plain objects in the process that runs the function, so counting costs a method call. They aren't state: they are reset with
every attempt of the job, and replayed elements are counted again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pystate.core.metrics.rates import RateWindow

DEFAULT_TIME_SPAN_S = 60


class Metric(ABC):  # noqa: B024 - the root of all metrics
    """The base of all metrics."""


class Counter(Metric):
    """A count that goes up and down."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self._count


class Meter(Metric):
    """The rate of events.

    Args:
        time_span_in_seconds: The time span of the rate.
    """

    def __init__(self, time_span_in_seconds: int = DEFAULT_TIME_SPAN_S) -> None:
        self._count = 0
        self._window = RateWindow(time_span_in_seconds)

    def mark_event(self, value: int = 1) -> None:
        """Record `value` events."""
        self._count += value

    def get_count(self) -> int:
        """Return the number of events since the attempt began."""
        return self._count

    def get_rate(self) -> float:
        """Return events per second, as of the last update: the slot updates it once a second."""
        return self._window.rate

    def look(self, now_s: float) -> None:
        """Record the count at a time, in monotonic seconds; called by the runtime, not by job authors."""
        self._window.update(now_s, self._count)


class Distribution(Metric):
    """Count, sum, minimum and maximum of the values."""

    def __init__(self) -> None:
        # one object that is replaced, so that readers on other threads never see a partial update
        self._seen: tuple[int, float, float, float] = (0, 0, 0, 0)

    def update(self, value: float) -> None:
        """Record a value."""
        count, total, least, greatest = self._seen
        if not count:
            least = greatest = value
        elif value < least:
            least = value
        elif value > greatest:
            greatest = value
        self._seen = (count + 1, total + value, least, greatest)

    def get_count(self) -> int:
        """Return the number of values."""
        return self._seen[0]

    def get_sum(self) -> float:
        """Return the sum of the values."""
        return self._seen[1]

    def get_min(self) -> float:
        """Return the minimum; 0 if there is no value."""
        return self._seen[2]

    def get_max(self) -> float:
        """Return the maximum; 0 if there is no value."""
        return self._seen[3]

    def get_mean(self) -> float:
        """Return the mean; 0 if there is no value."""
        count, total, _, _ = self._seen
        return total / count if count else 0.0

    def snapshot(self) -> tuple[int, float, float, float]:
        """Return a consistent snapshot of count, sum, minimum and maximum."""
        return self._seen


class Gauge(Metric):
    """A value computed by a function.

    Args:
        function: Returns the value: a number, a boolean, or a short text.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def get_value(self) -> Any:
        """Call the function."""
        return self._function()


class MetricGroup(ABC):
    """A group of metrics and subgroups. Registering a name twice returns the same metric."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return the counter of that name."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Register a gauge function.

        It is called at the end of each epoch, on the thread that runs the operator, so it may read what the operator keeps.

        Args:
            name: The gauge's name; a gauge of this name is replaced.
            obj: Returns a number, a truth, or a short text.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = DEFAULT_TIME_SPAN_S) -> Meter:
        """Return the meter of that name, whose rate is computed over a time span."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return the distribution of that name."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group below this one.

        Args:
            name: Its name; with `extra` the name of a variable, a label in Prometheus.
            extra: The variable's value.
        """

    @abstractmethod
    def get_scope_components(self) -> list[str]:
        """Return the scope: host, `taskmanager`, slot, job, operator, subtask, then the groups."""

    @abstractmethod
    def get_all_variables(self) -> dict[str, str]:
        """Return the variables: Flink's as `<job_name>`, those of `add_group` by their own names."""

    @abstractmethod
    def get_metric_identifier(self, metric_name: str) -> str:
        """Return the scope and a metric's name, joined by dots."""
