"""A writer of snapshots leaves the interpreter while others are busy, and only then."""

from __future__ import annotations

import pytest

from pystate.core.state.files import interpreter_share
from pystate.core.state.files.interpreter_share import InterpreterShare


class Clock:
    """The processor time of a writer that needs a second for each step, beside others that need some at the same time."""

    def __init__(self) -> None:
        self.mine = self.others = 0.0
        self.others_share = 0.0
        self.sleeps: list[float] = []

    def thread_time(self) -> float:
        return self.mine

    def process_time(self) -> float:
        return self.mine + self.others

    def step(self) -> None:
        self.mine += 1
        self.others += self.others_share

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.others += seconds * bool(self.others_share)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(interpreter_share, "time", clock)
    return clock


def leaves(clock: Clock, share: InterpreterShare) -> int:
    clock.sleeps.clear()
    for _ in range(80):
        clock.step()
        share.after(50)
    return len(clock.sleeps)


def test_who_is_alone_goes_on(clock: Clock) -> None:
    assert leaves(clock, InterpreterShare(100)) == 0


def test_who_is_beside_one_that_is_busy_leaves_after_each_step_and_for_microseconds(clock: Clock) -> None:
    share = InterpreterShare(100)
    clock.others_share = 1
    assert leaves(clock, share) == 40
    assert max(clock.sleeps) < 1e-3
    clock.others_share = 0
    leaves(clock, share)
    assert leaves(clock, share) == 0


def test_who_was_beside_one_that_is_busy_leaves_for_some_steps_more(clock: Clock) -> None:
    share = InterpreterShare(100)
    clock.others_share = 1
    leaves(clock, share)
    clock.others_share = 0
    assert 0 < leaves(clock, share) < 20


def test_threads_that_wake_up_now_and_then_are_not_busy(clock: Clock) -> None:
    clock.others_share = 0.01
    assert leaves(clock, InterpreterShare(100)) == 0
