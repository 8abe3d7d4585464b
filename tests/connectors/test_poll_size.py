"""How many elements a reader brings at once."""

from __future__ import annotations

from pystate.connectors.poll_size import POLL_S, PollSize


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def bring(size: PollSize, clock: Clock, seconds_each: float) -> int:
    count = size.count
    size.begin()
    clock.now += count * seconds_each
    size.end(count)
    return count


def test_fast_elements_come_many_at_once_and_no_more_than_the_most():
    clock = Clock()
    size = PollSize(500, clock)
    counts = [bring(size, clock, 1e-6) for _ in range(6)]
    assert counts == [1, 4, 16, 64, 256, 500]


def test_slow_elements_come_one_at_a_time_and_many_again_when_they_are_fast():
    clock = Clock()
    size = PollSize(500, clock)
    assert bring(size, clock, 1.0) == 1, "the first of all: nobody knows how long it takes"
    for _ in range(4):
        assert bring(size, clock, 1.0) == 1
    for _ in range(10):
        bring(size, clock, POLL_S / 100)
    assert size.count == 100


def test_few_elements_because_there_were_no_more_say_nothing():
    clock = Clock()
    size = PollSize(500, clock)
    bring(size, clock, 0.0)
    size.begin()
    size.end(3)
    assert size.count == 4
