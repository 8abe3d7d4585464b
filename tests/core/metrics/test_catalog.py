"""The catalog of metrics."""

from __future__ import annotations

import pytest

from pystate.core.metrics.metric_catalog import SYSTEM_METRICS
from pystate.core.metrics.sample import MetricKind


@pytest.mark.parametrize("metric", SYSTEM_METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_told_in_a_sentence(metric) -> None:
    assert metric.meaning.endswith(".")
    assert metric.kind in (MetricKind.COUNTER, MetricKind.GAUGE)
    assert metric.scopes
    assert metric.unit
