"""The times that strategies take from rows."""

import datetime

import pytest

from pystate.common import Row, WatermarkStrategy
from pystate.common.errors import RecordError
from pystate.common.watermark_strategy import NO_TIMESTAMP, ColumnTimestampAssigner


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        (datetime.datetime(2023, 11, 14, 22, 13, 20, 123_999), 1_700_000_000_123),  # noqa: DTZ001 - as rows come
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 1_000), -999),  # noqa: DTZ001
    ],
)
def test_a_column_is_a_timestamp_or_milliseconds(value, expected):
    assert ColumnTimestampAssigner("at").extract_timestamp(Row(at=value), NO_TIMESTAMP) == expected


@pytest.mark.parametrize("value", [None, "noon", 1.5, True])
def test_a_column_without_a_time_is_an_error_that_names_it(value):
    with pytest.raises(RecordError, match="column 'at' holds"):
        ColumnTimestampAssigner("at").extract_timestamp(Row(at=value), NO_TIMESTAMP)


def test_each_step_of_a_strategy_returns_another_one():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert strategy.with_timestamp_assigner(ColumnTimestampAssigner("at")) != strategy
    assert strategy == WatermarkStrategy.for_monotonous_timestamps()
    assert WatermarkStrategy.no_watermarks().max_out_of_orderness_ms is None
