"""The connections of a slot to its relays: the end of either side is the other's, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from pystate.common.errors import ControlError
from pystate.common.processes.control import connect
from pystate.common.processes.processes import can_run
from pystate.runtime.engines.real_time.slot.frames import FrameKind, pack_frame
from pystate.runtime.engines.real_time.slot.relay_server import HEARTBEAT, RelayHeader, RelayPort, RelayServer, introduce
from pystate.runtime.engines.real_time.spark import relay
from tests.waiting import LONGEST_S, wait_until

SECRET = b"of the job"


@pytest.fixture
def served():
    """Return a port, the errors it was lost with, and a function that comes as its relay."""
    lost, connections = [], []
    port = RelayPort(lambda frame: None, lost.append)
    server = RelayServer(SECRET, "job", 2, {(0, 1): SimpleNamespace(port=port)}, host="127.0.0.1", path=None)
    server.start()

    def come():
        connection = connect(server.address, SECRET)
        connections.append(connection)
        introduce(connection, RelayHeader("job", 2, 0, 1, 0, os.getpid()))
        return connection

    yield port, lost, come
    server.close()
    for connection in connections:
        connection.close()


def test_a_slot_that_ends_cuts_its_relay_off_though_its_process_lives_on(served):
    port, lost, come = served
    relay = come()
    port.close()
    assert relay.poll(10)
    with pytest.raises(EOFError):
        relay.recv_bytes()
    with pytest.raises(ControlError, match="The attempt is over"):
        port.send(b"frame")
    assert lost == []


def test_a_relay_that_is_gone_fails_its_subtask_and_may_be_closed_after_that(served):
    port, lost, come = served
    come().close()
    (error,) = wait_until(lambda: list(lost))
    assert "The relay of a subtask is gone while records may be under way" in error.message
    port.close()
    with pytest.raises(ControlError, match="had another relay before"):
        come()


def test_a_relay_that_is_silent_for_too_long_fails_its_subtask_unless_the_slot_does_not_listen(served):
    port, lost, come = served
    connection = come()
    wait_until(lambda: port._listens)
    for _ in range(99):
        port.time_passed(0.5)
    connection.send_bytes(HEARTBEAT)
    wait_until(lambda: port._unheard_s == 0)
    for _ in range(100):
        port.time_passed(0.5)
    assert lost == []
    port.time_passed(0.5)
    (error,) = wait_until(lambda: list(lost))
    assert "was not heard of for 50 s" in error.message
    port.time_passed(100)
    assert len(lost) == 1


@pytest.mark.parametrize("stopped", [True, False])
def test_a_relay_of_this_machine_that_could_run_is_waited_for(stopped, tmp_path):
    lost = []
    port = RelayPort(lambda frame: None, lost.append)
    server = RelayServer(
        SECRET, "job", 2, {(0, 1): SimpleNamespace(port=port)}, host="127.0.0.1", path=str(tmp_path / "relay")
    )
    server.start()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            if stopped:
                process.send_signal(signal.SIGSTOP)
                wait_until(lambda: not can_run(process.pid))
            with connect(server.address, SECRET) as connection:
                introduce(connection, RelayHeader("job", 2, 0, 1, 0, process.pid))
                wait_until(lambda: port._listens)
                port.time_passed(51)
                wait_until(lambda: lost if stopped else port._unheard_s == 0)
                assert len(lost) == stopped
        finally:
            process.kill()
            server.close()


def test_who_sends_to_a_relay_that_is_stopped_is_let_go(served):
    port, lost, come = served
    come()
    errors = []

    def send_without_end():
        with pytest.raises(ControlError) as caught:
            while True:
                port.send(bytes(1 << 20))
        errors.append(caught.value)

    sending = threading.Thread(target=send_without_end)
    sending.start()
    wait_until(lambda: port._listens)
    port.time_passed(51)
    sending.join(LONGEST_S)
    (error,) = errors
    assert "was not heard of for 50 s" in error.message
    assert len(wait_until(lambda: list(lost))) == 1


def test_heartbeats_come_until_the_connection_is_closed(served, monkeypatch):
    monkeypatch.setattr(relay, "HEARTBEAT_INTERVAL_S", 0.01)
    port, lost, come = served
    connection = come()
    beating = threading.Thread(target=relay.send_heartbeats, args=(connection, threading.Lock()))
    beating.start()
    wait_until(lambda: port._listens)
    for _ in range(20):
        port.time_passed(49)
        wait_until(lambda: port._unheard_s == 0)
    connection.close()
    beating.join(LONGEST_S)
    assert not beating.is_alive()
    (error,) = wait_until(lambda: list(lost))
    assert "is gone" in error.message


def test_a_connection_that_is_closed_while_a_frame_goes_is_gone_as_any(served):
    port, _, come = served
    connection = come()
    wait_until(lambda: port._listens)
    theirs = port._connection
    theirs._check_closed = theirs._check_writable = theirs.close  # the other thread closes it after what is looked at first
    with pytest.raises(ControlError, match="is gone while records may be under way"):
        port.send(b"frame")
    connection.close()


@pytest.fixture
def pair():
    """Return the port of a sender, that of the receiver in another slot, what that got, and the errors it was lost with."""
    got, lost = [], []

    def receive(frame):
        if frame.sequence != len(got):
            message = "out of order"
            raise ControlError(message)
        got.append(frame)

    receiver, sender = RelayPort(receive, lost.append), RelayPort(receive, lost.append)
    server = RelayServer(SECRET, "job", 2, {PLACE: SimpleNamespace(port=receiver)}, host="127.0.0.1", path=None)
    server.start()

    def come(attempt=2):
        header = RelayHeader("job", attempt, *PLACE, 0, os.getpid(), is_direct=True)
        sender.connect_directly(PLACE, server.address, SECRET, header)

    yield sender, receiver, got, lost, come
    for port in (sender, receiver):
        port.close()
    server.close()


PLACE = (1, 0)


def packed(number):
    return pack_frame(PLACE, FrameKind.BATCH, 0, number, b"data", rows=1)


def test_frames_for_a_slot_of_the_same_machine_go_there_and_to_no_relay(pair):
    sender, _, got, lost, come = pair
    come()
    for number in range(3):
        sender.send(packed(number))
    wait_until(lambda: len(got) == 3)
    assert [frame.sequence for frame in got] == [0, 1, 2]
    assert lost == []


def test_a_frame_that_the_receiver_refuses_fails_the_receiver(pair):
    sender, _, _, lost, come = pair
    come()
    sender.send(packed(5))
    (error,) = wait_until(lambda: list(lost))
    assert error.message == "out of order"


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk")])
def test_a_frame_that_there_is_no_memory_for_fails_the_receiver(pair, monkeypatch, error):
    """It may be the last one: then who has sent it never sees that the connection is closed, and the job would hang."""
    sender, receiver, _, lost, come = pair

    def refuse(_frame):
        raise error

    monkeypatch.setattr(receiver, "_receive", refuse)
    come()
    sender.send(packed(0))
    (found,) = wait_until(lambda: list(lost))
    assert repr(error) in found.message


def test_a_slot_of_another_attempt_takes_no_frames(pair):
    *_, come = pair
    with pytest.raises(ControlError, match="serves attempt 2"):
        come(attempt=3)


def test_who_sends_to_a_slot_that_is_gone_leaves_it_to_the_driver_to_say_why(pair, monkeypatch):
    """The driver knows the cause of a slot's death: what the sender says first would hide it."""
    sender, receiver, _, lost, come = pair
    come()
    receiver.close()
    errors = []

    def send_without_end():
        with pytest.raises(ControlError) as caught:
            while True:
                sender.send(packed(0))
        errors.append(caught.value.message)

    sending = threading.Thread(target=send_without_end)
    sending.start()
    sender.close()
    sending.join(LONGEST_S)
    assert errors == ["The attempt is over."]
    assert lost == []
    monkeypatch.setattr("pystate.runtime.engines.real_time.slot.relay_server.DEATH_NOTICE_S", 0.01)
    sender._closed = False
    with pytest.raises(ControlError, match="is gone"):
        sender.send(packed(1))


def test_who_waits_for_room_in_another_slot_is_let_go(pair, monkeypatch):
    sender, receiver, _, _, come = pair
    full = threading.Event()
    monkeypatch.setattr(receiver, "_receive", lambda _: full.wait())
    come()
    errors = []

    def send_without_end():
        with pytest.raises(ControlError) as caught:
            while True:
                sender.send(pack_frame(PLACE, FrameKind.BATCH, 0, 0, bytes(1 << 20), rows=1))
        errors.append(caught.value.message)

    sending = threading.Thread(target=send_without_end)
    sending.start()
    sender.close()
    sending.join(LONGEST_S)
    full.set()
    assert errors == ["The attempt is over."]
