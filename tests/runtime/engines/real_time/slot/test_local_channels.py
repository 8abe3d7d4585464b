"""Frames between two subtasks of one slot: no relay carries them, and who sends waits for room as it waits for a relay."""

from __future__ import annotations

import contextlib
import threading

import pytest

from pystate.common.errors import ControlError, SnapshotError
from pystate.runtime.engines.real_time.slot.frames import FrameKind, local_frame
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.engines.real_time.slot.real_time_slot_engine import ConnectedSubtask
from pystate.runtime.engines.real_time.slot.relay_server import RelayPort
from tests.waiting import ends, wait_until

DATA = bytes(100)


class Failing:
    """A subtask that notes its failures."""

    def __init__(self):
        self.failures = []

    def fail(self, error, _trace):
        self.failures.append(error)


@pytest.fixture
def receiver():
    gate = InputGate((("upstream", 0),), TaskMailbox(), InputSettings(room_bytes=150))
    return ConnectedSubtask(Failing(), RelayPort(gate.receive, lambda _: None), gate), gate


def frame(number):
    return local_frame(FrameKind.BATCH, 0, number, DATA, rows=1)


def sending(receiver, *numbers):
    raised = []

    def send():
        try:
            for number in numbers:
                receiver.deliver(frame(number))
        except ControlError as error:
            raised.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread, raised


def test_who_sends_waits_for_room(receiver):
    receiver, gate = receiver
    thread, raised = sending(receiver, *range(4))
    wait_until(lambda: not receiver.has_room)
    taken = []
    while len(taken) < 4:
        with contextlib.suppress(AttributeError):
            taken.append(gate.poll().sequence)
    assert ends(thread)
    assert (taken, raised) == ([0, 1, 2, 3], [])


def test_who_waits_for_room_goes_on_when_the_attempt_is_over(receiver):
    receiver, _ = receiver
    thread, raised = sending(receiver, *range(4))
    wait_until(lambda: not receiver.has_room)
    receiver.end()
    assert ends(thread)
    assert str(raised[0]) == "The attempt is over."


def test_a_frame_that_is_lost_or_comes_twice_is_noticed(receiver):
    receiver, _ = receiver
    receiver.deliver(frame(0))
    with pytest.raises(ControlError, match="Frame 0 of .* came in the place of 1"):
        receiver.deliver(frame(0))


def test_an_input_that_fails_is_the_failure_of_whom_it_belongs_to(receiver, monkeypatch):
    receiver, gate = receiver
    full = SnapshotError("The disk is full.")

    def fails(_frame):
        raise full

    monkeypatch.setattr(gate, "receive", fails)
    with pytest.raises(ControlError, match="has failed"):
        receiver.deliver(frame(0))
    assert receiver.subtask.failures == [full]
