"""The metrics registered by the function of one operator, in one subtask."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pystate.core.metrics.metric import DEFAULT_TIME_SPAN_S, Counter, Distribution, Gauge, Meter, Metric, MetricGroup
from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.sample import Groups, MetricKind, MetricSample, MetricValue, plain_text, plain_value

MAX_METRICS = 1000
"""The maximum number of reported metrics per operator of a subtask: a name per user or key would fill the memory of all
receivers."""

M = TypeVar("M", bound=Metric)


@dataclass(frozen=True)
class OperatorScope:
    """The metric scope of an operator.

    Attributes:
        uid: The operator's uid.
        components: Host, `taskmanager`, slot, job, operator, subtask.
        variables: The same and more, by Flink's names.
    """

    uid: str
    components: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


class OperatorMetrics:
    """Registers the metrics of one operator of one subtask, and reads them.

    The function updates metrics on its thread, and `sample_gauges` must be called on it. `samples` may be called from
    another thread.

    Args:
        scope: Where the operator runs.
        warn: Is called with a sentence about a metric that isn't reported.
    """

    def __init__(
        self, scope: OperatorScope, warn: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)
    ) -> None:
        self.scope = scope
        self._warn = warn
        self._metrics: dict[tuple[Groups, str], Metric] = {}
        self._gauge_values: dict[tuple[Groups, str], Any] = {}
        self._failing: set[tuple[Groups, str]] = set()
        self._full = False
        self.group: MetricGroup = _Group(self, ())

    def register(self, groups: Groups, name: str, kind: type[M], make: Callable[[], M]) -> M:
        """Return the metric of that name; creates it if there is none."""
        key = (groups, plain_text(str(name)))
        known = self._metrics.get(key)
        if isinstance(known, kind) and kind is not Gauge:
            return known
        made = make()
        where = f"the metric {'.'.join(_names(*key))!r} of {self.scope.uid!r} is not reported"
        if known is not None and not isinstance(known, kind):
            self._warn(f"WARNING: {where}: there is a {type(known).__name__.lower()} of that name")
        elif system_metric(key[1], groups) is not None:
            self._warn(f"WARNING: {where}: pystate has one of that name; put it into a group")
        elif known is None and len(self._metrics) >= MAX_METRICS:
            if not self._full:
                self._warn(f"WARNING: {where}, nor is any other: an operator has at most {MAX_METRICS} metrics")
            self._full = True
        else:
            self._metrics[key] = made
        return made

    def sample_gauges(self) -> None:
        """Call the gauge functions, on the operator's thread. A failing gauge has no value, and is reported once."""
        for key, metric in list(self._metrics.items()):
            if not isinstance(metric, Gauge):
                continue
            try:
                self._gauge_values[key] = plain_value(metric.get_value())
            except Exception as error:  # metrics must not fail the job
                self._gauge_values.pop(key, None)
                if key not in self._failing:
                    self._failing.add(key)
                    name = ".".join(_names(*key))
                    self._warn(f"WARNING: the gauge {name!r} of {self.scope.uid!r} failed: {type(error).__name__}: {error}")

    def look(self, now_s: float) -> None:
        """Update the meters with the time, in monotonic seconds."""
        for metric in list(self._metrics.values()):
            if isinstance(metric, Meter):
                metric.look(now_s)

    def samples(self) -> list[MetricSample]:
        """Return the samples of all metrics."""
        found = []
        for key, metric in list(self._metrics.items()):
            kind, value = self._read(key, metric)
            if value is not None:
                found.append(MetricSample(key[1], kind, value, self.scope.uid, key[0]))
        return found

    def _read(self, key: tuple[Groups, str], metric: Metric) -> tuple[MetricKind, MetricValue | None]:
        if isinstance(metric, Counter):
            return MetricKind.COUNTER, plain_value(metric.get_count())
        if isinstance(metric, Meter):
            return MetricKind.METER, {"rate": float(metric.get_rate()), "count": plain_value(metric.get_count())}
        if isinstance(metric, Distribution):
            names = ("count", "sum", "min", "max")
            figures = dict(zip(names, map(plain_value, metric.snapshot()), strict=True))
            return MetricKind.DISTRIBUTION, figures
        return MetricKind.GAUGE, self._gauge_values.get(key)


class _Group(MetricGroup):
    """One group of an operator's metrics."""

    def __init__(self, metrics: OperatorMetrics, groups: Groups) -> None:
        self._metrics = metrics
        self._groups = groups

    def counter(self, name: str) -> Counter:
        """Return the counter of that name."""
        return self._metrics.register(self._groups, name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Register a gauge function."""
        self._metrics.register(self._groups, name, Gauge, lambda: Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = DEFAULT_TIME_SPAN_S) -> Meter:
        """Return the meter of that name."""
        return self._metrics.register(self._groups, name, Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of that name."""
        return self._metrics.register(self._groups, name, Distribution, Distribution)

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group below this one."""
        value = None if extra is None else plain_text(str(extra))
        return _Group(self._metrics, (*self._groups, (plain_text(str(name)), value)))

    def get_scope_components(self) -> list[str]:
        """Return the scope."""
        return [*self._metrics.scope.components, *_names(self._groups)]

    def get_all_variables(self) -> dict[str, str]:
        """Return the variables."""
        own = {name: value for name, value in self._groups if value is not None}
        return {**self._metrics.scope.variables, **own}

    def get_metric_identifier(self, metric_name: str) -> str:
        """Return the scope and a metric's name."""
        return ".".join([*self.get_scope_components(), metric_name])


def _names(groups: Groups, *rest: str) -> list[str]:
    return [*(part for group in groups for part in group if part is not None), *rest]
