"""What functions measure, under the module name PyFlink has it."""

from pystate.core.metrics.metric import Counter, Distribution, Gauge, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup"]
