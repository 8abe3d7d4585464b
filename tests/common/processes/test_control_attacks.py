"""What those can do to a control socket who don't know its secret: nothing that lasts."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import random
import socket
import threading
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import pytest

from pystate.common.errors import ControlError
from pystate.common.processes import control
from pystate.common.processes.connection_limiter import ConnectionLimiter
from pystate.common.processes.control import ControlClient, ControlServer, connect
from tests.ops.jobmanager.harness import eventually
from tests.waiting import LONGEST_S

SECRET = b"a" * 64
PLACES = 16


@pytest.fixture
def served(monkeypatch):
    """Return a function that starts a server with few places."""
    monkeypatch.setattr(control, "_MOST_UNPROVEN", PLACES)
    monkeypatch.setattr(control, "_MOST_UNPROVEN_OF_PEER", PLACES)
    servers = []

    def start(**terms):
        if terms:
            monkeypatch.setattr(control, "ConnectionLimiter", functools.partial(ConnectionLimiter, **terms))
        server = ControlServer(SECRET, lambda request: request["number"] + 1)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def silent():
    """Return a function that connects and says nothing."""
    made = []

    def knock(server, said=b""):
        made.append(socket.create_connection((server.host, server.port), timeout=LONGEST_S))
        with contextlib.suppress(ConnectionError):
            made[-1].sendall(said)
        return made[-1]

    yield knock
    for one in made:
        one.close()


def threads_of(name="control"):
    return sum(thread.name == name for thread in threading.enumerate())


def is_cut(connection):
    """Return whether the other side has ended a connection, after what it said at first."""
    connection.settimeout(10)
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_hundreds_of_silent_ones_keep_nobody_out(served, silent):
    before = threads_of()
    server = served()
    proven = ControlClient(server.host, server.port, SECRET)
    crowd = [silent(server) for _ in range(300)]
    assert ControlClient(server.host, server.port, SECRET).call("add", number=1) == 2
    assert proven.call("add", number=2) == 3  # who has proven himself loses nothing to them
    assert is_cut(crowd[0])
    # as many threads as places, those of the two who are served, and those that are about to end
    eventually(lambda: threads_of() - before <= PLACES + 2)
    eventually(lambda: len(server._listener._unproven) <= PLACES)


def test_who_does_not_prove_himself_in_time_is_cut_and_who_has_is_not(served, silent):
    server = served(seconds=0.05)
    proven = ControlClient(server.host, server.port, SECRET)
    assert is_cut(silent(server))
    assert is_cut(silent(server, b"\0\0"))  # half a message
    assert proven.call("add", number=1) == 2
    eventually(lambda: len(server._listener._unproven) == 0)


def test_too_many_open_files_are_waited_for_and_said_once(served, silent, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="pystate.common.processes.control")
    server = served()
    real = server._listener._socket
    tries, free = [], threading.Event()

    class Exhausted:
        def fileno(self):
            return real.fileno()

        def accept(self):
            if free.is_set():
                return real.accept()
            tries.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

        def __getattr__(self, name):
            return getattr(real, name)

    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 5:
            free.set()

    crowd = silent(server)
    eventually(lambda: len(server._listener._unproven) == 1)
    monkeypatch.setattr(server._listener._closed, "wait", pause)
    server._listener._socket = Exhausted()
    assert ControlClient(server.host, server.port, SECRET).call("add", number=1) == 2
    assert len(tries) == len(pauses) == 5  # no turn without a pause
    assert is_cut(crowd)  # the oldest unauthenticated one is cut
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "control: connections can't be accepted, and wait: [Errno 24] Too many open files"),
        ("INFO", "control: connections are accepted again"),
    ]


def test_no_thread_for_a_connection_is_no_end_of_the_server(served, monkeypatch):
    server = served()
    start, failed = threading.Thread.start, []

    def fail_once(thread):
        if thread.name == "control" and not failed:
            failed.append(thread)
            message = "can't start new thread"
            raise RuntimeError(message)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    # the first connection is cut, and made once more
    assert ControlClient(server.host, server.port, SECRET).call("add", number=1) == 2
    assert len(failed) == 1


@pytest.mark.parametrize("seed", range(4))
def test_hostile_bytes_are_answered_with_the_end(served, silent, seed):
    server = served()
    chance = random.Random(seed)  # noqa: S311 - no secret
    heads = [
        b"",
        b"\0\0\0\x10",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff" + b"\x7f" * 8,
        b"GET / HTTP/1.1\r\n",
    ]
    for _ in range(25):
        one = silent(server, chance.choice(heads) + chance.randbytes(chance.randrange(1, 400)))
        with contextlib.suppress(OSError):  # it is cut already
            one.shutdown(socket.SHUT_WR)
        assert is_cut(one)
    assert ControlClient(server.host, server.port, SECRET).call("add", number=1) == 2
    assert eventually(lambda: len(server._listener._unproven) == 0) is True


class Recorder(Connection):
    def __init__(self, handle):
        super().__init__(handle)
        self.said = []

    def send_bytes(self, buffer, offset=0, size=None):
        self.said.append(bytes(buffer))
        super().send_bytes(buffer, offset, size)


def test_what_was_said_once_proves_nothing_again(served, silent):
    server = served()

    def conversation():
        return Recorder(socket.create_connection((server.host, server.port)).detach())

    with conversation() as known:
        answer_challenge(known, SECRET)
        deliver_challenge(known, SECRET)
        control.send_message(known, {"op": "add", "number": 1})
        assert control.receive_message(known)["value"] == 2
    with conversation() as replayed:
        answer, *rest = known.said
        assert rest
        replayed.send_bytes(answer)  # alone: what is sent to one who has hung up makes the system drop his last words
        replayed.recv_bytes()  # the challenge, another one
        assert replayed.recv_bytes() == b"#FAILURE#"
        with pytest.raises((EOFError, OSError)):
            for part in rest:
                replayed.send_bytes(part)
            replayed.recv_bytes()


def test_what_we_are_sent_cannot_be_sent_back_as_ours(served):
    server = served()
    first, second = (Connection(socket.create_connection((server.host, server.port)).detach()) for _ in range(2))
    with first, second:
        first.recv_bytes(256)
        # the challenge of the one is given to the other as if it were an answer
        second.send_bytes(second.recv_bytes(256))
        assert second.recv_bytes(256) == b"#FAILURE#"


def test_an_impostor_who_talks_nonsense_is_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def talk():
            accepted, _ = impostor.accept()
            with accepted:
                accepted.sendall(b"\0\0\0\x08nonsense")
                accepted.recv(1)

        threading.Thread(target=talk, daemon=True).start()
        with pytest.raises(ControlError):
            connect(impostor.getsockname(), SECRET, timeout=LONGEST_S)


def test_a_message_that_is_none_ends_its_connection_only(served, caplog):
    server = served()
    with connect((server.host, server.port), SECRET) as known:
        known.send_bytes(os.urandom(64) + b"\xc1")
        with pytest.raises((EOFError, OSError)):
            known.recv_bytes()
            known.recv_bytes()
    assert ControlClient(server.host, server.port, SECRET).call("add", number=1) == 2
