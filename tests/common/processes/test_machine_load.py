"""Timeouts that give a busy machine the time that it needs, and words for it."""

from __future__ import annotations

import pytest

from pystate.common.processes import machine_load
from pystate.common.processes.machine_load import PatientDeadline, busy_sentence, cpu_share, patient


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def load(monkeypatch):
    """Say how many threads can run on 2 cores, what the average is, and for how many per cent something waited."""

    def say(runnable, average=None, waiting=None):
        monkeypatch.setattr(machine_load, "core_count", lambda: 2)
        monkeypatch.setattr(machine_load, "_can_run", lambda: float(runnable))
        monkeypatch.setattr(machine_load, "_waiting", lambda: waiting)
        monkeypatch.setattr(machine_load.os, "getloadavg", lambda: (float(runnable if average is None else average), 0, 0))

    return say


@pytest.mark.parametrize(("runnable", "share"), [(0, 1.0), (1, 1.0), (2, 1.0), (4, 0.5), (30, 1 / 15), (10_000, 1 / 50)])
def test_each_thread_gets_its_part_of_the_cores(load, runnable, share):
    load(runnable)
    assert cpu_share() == pytest.approx(share)
    assert patient(10) == pytest.approx(10 / share)


def test_a_wait_on_a_busy_machine_ends_the_later_by_as_much_as_it_is_busy():
    clock, shares = Clock(), [1.0]
    deadline = PatientDeadline(60, clock=clock, share=lambda: shares[0])
    clock.now = 30
    assert not deadline.has_passed()
    shares[0] = 1 / 15
    clock.now = 30 + 15 * 29
    assert not deadline.has_passed()
    clock.now = 30 + 15 * 31
    assert deadline.has_passed()


def test_a_wait_begins_anew_with_progress_and_ends_without():
    clock = Clock()
    deadline = PatientDeadline(60, clock=clock, share=lambda: 1.0)
    for slots in range(5):
        clock.now += 50
        deadline.saw(slots)
        assert not deadline.has_passed()
    clock.now += 61
    deadline.saw(4)
    assert deadline.has_passed()


def test_a_busy_machine_is_told_with_its_load_and_what_waited(load):
    load(31, average=12, waiting=97.2)
    assert busy_sentence() == (
        "this machine is busy (a load of 31.0 on 2 cores, and for 97 % of the last 10 s something waited for a CPU): run "
        "less on it, or fewer jobs at once"
    )
    load(1, average=31.2)
    assert str(busy_sentence()).startswith("this machine is busy (a load of 31.2 on 2 cores):")


@pytest.mark.parametrize("waiting", [None, 0.0, 99.0])
def test_a_machine_with_a_core_for_each_is_not_called_busy(load, waiting):
    load(2, waiting=waiting)
    assert busy_sentence() is None


def test_this_machine_has_figures():
    assert 0 < cpu_share() <= 1
    assert machine_load.core_count() >= 1
