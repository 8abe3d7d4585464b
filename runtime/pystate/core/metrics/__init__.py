"""The metrics of functions, under PyFlink's module name."""

from pystate.core.metrics.metric import Counter, Distribution, Gauge, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup"]
