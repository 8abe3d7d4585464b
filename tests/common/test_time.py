"""Durations and memory sizes in Flink's spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Duration, Instant, Time
from pystate.common.time import format_duration, parse_duration, parse_memory_size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 min", 600_000),
        ("500 ms", 500),
        ("1 s", 1_000),
        ("3s", 3_000),
        ("30d", 2_592_000_000),
        ("1 h", 3_600_000),
        ("250", 250),
        (" 2 Hours ", 7_200_000),
        ("5000000 ns", 5),
        ("0 s", 0),
    ],
)
def test_durations_are_read(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


@pytest.mark.parametrize("text", ["", "min", "-1 s", "1.5 s", "1 fortnight", "1 s 2 ms", "10 ns", "9" * 30, "1,000 s"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**15))
def test_a_formatted_duration_reads_back(millis: int) -> None:
    assert parse_duration(format_duration(millis)) == millis


def test_durations_are_shown_in_their_largest_exact_unit() -> None:
    texts = [format_duration(n) for n in (0, 1_500, 10_000, 600_000, 86_400_000)]
    assert texts == ["0 ms", "1500 ms", "10 s", "10 min", "1 d"]


@pytest.mark.parametrize(
    ("text", "size"), [("20 kb", 20480), ("64mb", 67108864), ("1 gb", 1073741824), ("17", 17), ("3 b", 3), ("1T", 1 << 40)]
)
def test_memory_sizes_are_read(text: str, size: int) -> None:
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "kb", "-1 kb", "1.5 gb", "1 xb", "1 kb 2", "9" * 30])
def test_a_text_that_is_no_memory_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"memory size|more bytes"):
        parse_memory_size(text)


def test_lengths_of_time_have_flinks_units() -> None:
    assert (Time.seconds(2).to_milliseconds(), Time.days(1).to_milliseconds()) == (2_000, 86_400_000)
    assert (Duration.of_minutes(1).to_millis(), Duration.of_hours(1)) == (60_000, Duration.of_millis(3_600_000))


def test_instants_before_the_epoch_round_down() -> None:
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant.of_epoch_milli(-1).to_epoch_milli() == -1
    with pytest.raises(ValueError, match="nanoseconds"):
        Instant(0, 1_000_000_000)


def test_lengths_of_time_are_shown_as_flink_and_java_show_them() -> None:
    assert [str(Time.seconds(3)), str(Time.milliseconds(5))] == ["3000 ms", "5 ms"]
    millis = (0, 500, 3_000, 90_000, 5_400_000, 86_400_000, -1_500)
    texts = ["PT0S", "PT0.5S", "PT3S", "PT1M30S", "PT1H30M", "PT24H", "PT-1.5S"]
    assert [str(Duration.of_millis(length)) for length in millis] == texts
    assert [str(Instant(1, 5)), repr(Instant.of_epoch_milli(-1))] == ["Instant<1, 5>", "Instant<-1, 999000000>"]
