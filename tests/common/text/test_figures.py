from __future__ import annotations

import pytest

from pystate.common.text.figures import format_millis, format_moment, format_size

DAY = 86_400_000
NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KB"),
        (9330, "9.11 KB"),
        (45_123_456, "43.0 MB"),
        (123_456_789, "118 MB"),
        (5 << 40, "5.00 TB"),
        (5000 << 40, "5000 TB"),
    ],
)
def test_sizes_have_three_digits(size, text):
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_999, "59.9 s"),
        (60_000, "1 m 00 s"),
        (245_000, "4 m 05 s"),
        (3_720_000, "1 h 02 m"),
        (3 * DAY + 4 * 3_600_000, "3 d 04 h"),
    ],
)
def test_lengths_of_time_have_two_units(millis, text):
    assert format_millis(millis) == text


def test_a_moment_of_today_needs_no_date():
    assert format_moment(NOON, NOON + 1) == format_moment(NOON, NOON)
    assert len(format_moment(NOON, NOON)) == 8
    assert len(format_moment(NOON - 2 * DAY, NOON)) == 19
    assert format_moment(-1, NOON) == "-"
