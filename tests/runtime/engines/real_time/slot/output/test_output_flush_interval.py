"""How long results wait in output buffers."""

from __future__ import annotations

import math

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.engines.real_time.slot.output import output_flush_interval
from pystate.runtime.engines.real_time.slot.output.output_flush_interval import (
    ENOUGH_BYTES,
    LEAST_S,
    MOST_S,
    OutputFlushInterval,
)

NOW_MS = 1_000_000


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(output_flush_interval.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(output_flush_interval, "current_time_ms", lambda: NOW_MS)
    return now


def hand_on(interval, clock, times, blocked_share, size=0):
    for _ in range(times):
        clock[0] += interval.seconds
        interval.blocked_ns = getattr(interval, "blocked_ns", 0) + int(interval.seconds * blocked_share * 1e9)
        interval.sent_bytes = getattr(interval, "sent_bytes", 0) + size
        interval.handed_on(interval.blocked_ns, interval.sent_bytes)


def test_it_grows_while_the_next_tasks_are_after_and_shrinks_when_they_keep_up(clock):
    interval = OutputFlushInterval()
    assert interval.seconds == LEAST_S
    hand_on(interval, clock, 20, 0.5)
    assert interval.seconds == MOST_S
    hand_on(interval, clock, 100, 0.1)
    assert interval.seconds == LEAST_S


def test_it_is_over_when_the_time_has_passed(clock):
    interval = OutputFlushInterval()
    clock[0] += LEAST_S / 2
    assert not interval.is_over
    clock[0] += LEAST_S
    assert interval.is_over
    interval.handed_on(0, 0)
    assert not interval.is_over


def test_what_is_large_is_handed_on_early_though_the_next_tasks_lag(clock):
    interval = OutputFlushInterval()
    hand_on(interval, clock, 20, 0.9, ENOUGH_BYTES + 1)
    assert interval.seconds == LEAST_S
    assert interval.downstream_lags
    hand_on(interval, clock, 20, 0.9, ENOUGH_BYTES // 2)
    assert interval.seconds == MOST_S


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 0.02),
        ({"execution.buffer-timeout.interval": "0 ms"}, 0.0),
        ({"execution.buffer-timeout.interval": "5 ms"}, 0.005),
        ({"execution.buffer-timeout": "2 s"}, 2.0),
        ({"execution.buffer-timeout.enabled": "false"}, math.inf),
    ],
)
def test_options_say_how_long_results_wait_at_least(clock, options, seconds):
    interval = OutputFlushInterval.of(Configuration(options))
    assert interval.seconds == seconds
    assert interval.longest_take_s == LEAST_S  # so long a source may let its mail wait
    interval.handed_on(0, 0)
    assert interval.is_over == (seconds == 0.0)
    assert interval.due() == (None if math.isinf(seconds) else NOW_MS + round(seconds * 1000))
    clock[0] += min(seconds, 1e9)
    assert interval.is_over == (not math.isinf(seconds))


def test_where_the_next_tasks_are_after_results_wait_longer_than_was_said_and_no_shorter(clock):
    for least, most in ((0.0, MOST_S), (0.02, MOST_S), (2.0, 2.0)):
        interval = OutputFlushInterval(least)
        for _ in range(20):
            clock[0] += 0.1
            interval.blocked_ns = getattr(interval, "blocked_ns", 0) + 90_000_000
            interval.handed_on(interval.blocked_ns, 0)
        assert interval.downstream_lags
        assert interval.seconds == most
        hand_on(interval, clock, 100, 0.1)
        assert not interval.downstream_lags
        assert interval.seconds == least
