"""How long results wait in output buffers."""

from __future__ import annotations

import pytest

from pystate.slot.real_time import hand_on_interval
from pystate.slot.real_time.hand_on_interval import LEAST_S, MOST_S, HandOnInterval


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hand_on_interval.time, "monotonic", lambda: now[0])
    return now


def hand_on(interval, clock, times, blocked_share):
    for _ in range(times):
        clock[0] += interval.seconds
        interval.blocked_ns = getattr(interval, "blocked_ns", 0) + int(interval.seconds * blocked_share * 1e9)
        interval.handed_on(interval.blocked_ns)


def test_it_grows_while_the_next_tasks_are_behind_and_shrinks_when_they_keep_up(clock):
    interval = HandOnInterval()
    assert interval.seconds == LEAST_S
    hand_on(interval, clock, 20, 0.5)
    assert interval.seconds == MOST_S
    hand_on(interval, clock, 100, 0.1)
    assert interval.seconds == LEAST_S


def test_it_is_over_when_the_time_has_passed(clock):
    interval = HandOnInterval()
    clock[0] += LEAST_S / 2
    assert not interval.is_over
    clock[0] += LEAST_S
    assert interval.is_over
    interval.handed_on(0)
    assert not interval.is_over
