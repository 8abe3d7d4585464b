import decimal
import math

import numpy as np
import pytest

from pystate.common.text.plain_data import PlainDataError
from pystate.core.metrics.sample import MetricKind, MetricSample, plain_value, value_text


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (True, True),
        (np.int64(7), 7),
        (np.float32(0.5), 0.5),
        (1 << 70, float(1 << 70)),
        (-(10**400), -math.inf),
        (decimal.Decimal("1.5"), "1.5"),
        ("x" * 999, "x" * 256),
        ("\ud800", "?"),
        (None, "None"),
    ],
)
def test_what_functions_measure_can_always_be_sent(value, sent):
    assert plain_value(value) == sent
    assert type(plain_value(value)) is type(sent)


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (0.25, "0.25"), (True, "true"), (math.nan, "NaN"), (-math.inf, "-Infinity"), ("a", "a")]
)
def test_rest_writes_values_as_text(value, text):
    assert value_text(value) == text


def test_a_sample_comes_back_from_plain_data():
    sample = MetricSample(
        "size", MetricKind.DISTRIBUTION, {"count": 1, "sum": 2, "min": 2, "max": 2}, "map", (("in", None),)
    )
    assert MetricSample.from_plain(sample.to_plain()) == sample


@pytest.mark.parametrize("plain", [None, 5, [], [1, 2, 3], [None, [], "x", "no kind", 1], [None, [1], "x", "gauge", 1]])
def test_what_is_no_sample_is_refused(plain):
    with pytest.raises(PlainDataError):
        MetricSample.from_plain(plain)
