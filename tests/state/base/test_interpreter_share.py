"""A writer of snapshots leaves the interpreter, longer and more often while others want it."""

from __future__ import annotations

import sys

import pytest

from pystate.state.base import interpreter_share
from pystate.state.base.interpreter_share import InterpreterShare


class Clock:
    """A clock that stands still but for sleeping, which takes as long as another thread has the interpreter."""

    def __init__(self) -> None:
        self.now = 0.0
        self.busy = 0.0
        self.sleeps: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += max(seconds, self.busy)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(interpreter_share, "time", clock)
    return clock


def leaves(clock: Clock, share: InterpreterShare) -> int:
    clock.sleeps.clear()
    for _ in range(80):
        share.after(50)
    return len(clock.sleeps)


def test_who_is_alone_leaves_seldom_and_for_microseconds(clock: Clock) -> None:
    share = InterpreterShare(100)
    leaves(clock, share)
    assert leaves(clock, share) == 10
    assert sum(clock.sleeps) < 1e-3


def test_who_is_waited_for_leaves_often_until_nobody_waits(clock: Clock) -> None:
    share = InterpreterShare(100)
    clock.busy = sys.getswitchinterval()
    leaves(clock, share)
    assert leaves(clock, share) == 40
    clock.busy = 0
    leaves(clock, share)
    assert leaves(clock, share) == 10
