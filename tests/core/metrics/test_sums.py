import pytest

from pystate.core.metrics.sample import MetricKind
from pystate.core.metrics.sums import plus, since

SIZES = {"count": 2, "sum": 6, "min": 1, "max": 5}
NONE = {"count": 0, "sum": 0, "min": 0, "max": 0}


@pytest.mark.parametrize(
    ("kind", "before", "value", "both"),
    [
        (MetricKind.COUNTER, 3, 4, 7),
        (MetricKind.COUNTER, None, 4, 4),
        (MetricKind.COUNTER, 3, "text", "text"),
        (MetricKind.GAUGE, 3, 4, 4),
        (MetricKind.METER, {"rate": 1.0, "count": 3}, {"rate": 9.0, "count": 2}, {"rate": 0.0, "count": 5}),
        (MetricKind.DISTRIBUTION, SIZES, NONE, SIZES),
        (MetricKind.DISTRIBUTION, NONE, SIZES, SIZES),
        (
            MetricKind.DISTRIBUTION,
            SIZES,
            {"count": 1, "sum": 9, "min": 9, "max": 9},
            {"count": 3, "sum": 15, "min": 1, "max": 9},
        ),
    ],
)
def test_what_two_tasks_say_together(kind, before, value, both):
    assert plus(kind, before, value) == both


@pytest.mark.parametrize(
    ("kind", "before", "value", "since_then"),
    [
        (MetricKind.COUNTER, 3, 4, 1),
        (MetricKind.COUNTER, None, 4, 4),
        (MetricKind.GAUGE, 3, 4, 4),
        (MetricKind.METER, {"rate": 1.0, "count": 3}, {"rate": 9.0, "count": 5}, {"rate": 9.0, "count": 2}),
        (MetricKind.DISTRIBUTION, SIZES, {**SIZES, "count": 3, "sum": 7}, {**SIZES, "count": 1, "sum": 1}),
    ],
)
def test_what_was_counted_since_the_last_look(kind, before, value, since_then):
    assert since(kind, before, value) == since_then
