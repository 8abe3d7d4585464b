"""When assigners hand on their watermarks, and when a subtask has to be awake for it."""

from __future__ import annotations

import types

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.engines.real_time.slot import due_times
from pystate.runtime.engines.real_time.slot.due_times import DueTimes

NOW_MS = 1_000_000


class Chain:
    """What is asked of a chain: no timer, assigners that never become idle."""

    def __init__(self, assigners):
        self.emitted = 0
        self.assigners = types.SimpleNamespace(
            by_uid=dict.fromkeys(assigners), next_idle=lambda _: None, on_periodic_emit=self._emit
        )

    def _emit(self):
        self.emitted += 1

    @staticmethod
    def next_processing_time_timer():
        return None


@pytest.fixture
def clock(monkeypatch):
    now = [50.0]
    monkeypatch.setattr(due_times.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(due_times, "current_time_ms", lambda: NOW_MS)
    return now


def made(chain, interval=None):
    configuration = Configuration()
    if interval is not None:
        configuration.set_string("pipeline.auto-watermark-interval", interval)
    return DueTimes(chain, configuration)


def test_watermarks_go_out_every_interval_and_the_subtask_is_awake_for_what_waits(clock):
    chain = Chain(["times"])
    due = made(chain)
    assert due.next() is None
    assert not due.on_periodic_emit()
    assert due.next() == NOW_MS + 201
    clock[0] += 0.15
    assert not due.on_periodic_emit()
    assert due.next() == NOW_MS + 51
    clock[0] += 0.051
    assert due.on_periodic_emit()
    assert (due.next(), chain.emitted) == (None, 1)
    assert not due.on_periodic_emit()
    assert due.next() == NOW_MS + 201


def test_after_a_pause_they_go_out_at_once(clock):
    due = made(Chain(["times"]), "50 ms")
    assert not due.on_periodic_emit()
    clock[0] += 60.0
    assert due.on_periodic_emit()


def test_with_an_interval_of_zero_they_never_do(clock):
    chain = Chain(["times"])
    due = made(chain, "0 ms")
    for _ in range(3):
        clock[0] += 1000.0
        assert not due.on_periodic_emit()
    assert (due.next(), chain.emitted) == (None, 0)


def test_a_chain_without_assigners_is_not_waited_for(clock):
    due = made(Chain([]))
    assert not due.on_periodic_emit()
    clock[0] += 1.0
    assert not due.on_periodic_emit()
    assert due.next() is None
