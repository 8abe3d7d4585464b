"""Who waits behind a barrier that overtakes, and until when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.output.output_pause import OutputPause


def barrier(number: int, *, savepoint: bool = False) -> CheckpointBarrier:
    return CheckpointBarrier(number, "", 0, 0, savepoint=savepoint)


def pause_of(*, after: bool = True, **settings: Any) -> OutputPause:
    interval: Any = SimpleNamespace(downstream_lags=after)
    return OutputPause(InputSettings(**{"unaligned": True, **settings}), interval, lambda: 0)


def test_it_is_on_after_a_barrier_until_that_or_a_newer_one_has_made_room():
    pause = pause_of()
    assert not pause.is_on
    pause.barrier_sent(barrier(3))
    assert pause.is_on
    pause.end(2)
    assert pause.is_on
    pause.end(4)
    assert not pause.is_on


def test_it_does_not_begin_after_a_barrier_for_which_it_has_ended_already():
    pause = pause_of()
    pause.end(3)
    pause.barrier_sent(barrier(3))
    assert not pause.is_on
    pause.barrier_sent(barrier(4))
    assert pause.is_on


@pytest.mark.parametrize(
    ("pause", "one"),
    [
        (pause_of(after=False), barrier(1)),
        (pause_of(unaligned=False), barrier(1)),
        (pause_of(at_least_once=True), barrier(1)),
        (pause_of(), barrier(1, savepoint=True)),
        (pause_of(aligned_timeout_ms=1), barrier(1)),
    ],
    ids=["the next tasks keep up", "aligned", "at least once", "a savepoint", "not yet"],
)
def test_nobody_waits_where_nothing_is_overtaken_or_queued_before(pause, one):
    pause.barrier_sent(one)
    assert not pause.is_on
