"""Connections between our processes: who is admitted, and where they are listened for."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading

import pytest

from pystate.common.errors import ControlError
from pystate.common.processes.control import AuthenticatedListener, ControlClient, ControlServer, Peer, connect, hang_up
from tests.waiting import LONGEST_S

SECRET, OTHER = b"a" * 64, b"b" * 64


@pytest.fixture
def server():
    made = ControlServer(SECRET, lambda request: request["number"] + 1)
    made.start()
    yield made
    made.close()


def free_range(count: int) -> range:
    """Return ports in a row that nobody has."""
    for first in range(51_000, 60_000, count):
        taken = []
        try:
            taken = [socket.create_server(("127.0.0.1", port)) for port in range(first, first + count)]
        except OSError:
            continue
        finally:
            for one in taken:
                one.close()
        return range(first, first + count)
    raise AssertionError


def test_who_knows_the_secret_is_answered(server):
    client = ControlClient(server.host, server.port, SECRET)
    assert client.call("add", number=1) == 2
    client.close()


def test_who_does_not_know_the_secret_is_refused(server):
    with pytest.raises(ControlError, match="does not share our secret"):
        connect((server.host, server.port), OTHER, timeout=LONGEST_S)


def test_a_server_that_does_not_know_the_secret_is_told_nothing():
    heard = []
    impostor = ControlServer(OTHER, heard.append)
    impostor.start()
    with pytest.raises(ControlError, match="does not share our secret"):
        ControlClient(impostor.host, impostor.port, SECRET)
    impostor.close()
    assert heard == []


def test_listeners_take_the_free_ports_of_a_range_in_turn():
    ports = free_range(3)
    servers = [ControlServer(SECRET, lambda request: None, ports=ports) for _ in ports]
    assert [server.port for server in servers] == list(ports)
    with pytest.raises(ControlError) as caught:
        ControlServer(SECRET, lambda request: None, ports=ports)
    assert caught.value.message == f"None of the ports from {ports[0]} to {ports[-1]} is free on 127.0.0.1."
    assert caught.value.where == "pystate.slot.ports"
    for server in servers:
        server.close()


def test_nothing_listens_on_all_addresses_unless_it_is_told_to(server):
    assert server.host == "127.0.0.1"


def test_a_path_that_is_too_long_for_a_unix_socket_is_answered_with_a_port(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, kind in (("socket", str), ("long" * 30, tuple)):
        server = AuthenticatedListener(SECRET, print, path=path, name="listener")
        assert type(server.address) is kind
        server.close()


def test_who_hangs_up_on_a_connection_that_is_being_closed_leaves_alone_the_next_with_its_descriptor(monkeypatch):
    """The descriptor is free before the connection knows that it is closed."""
    left, right = socket.socketpair()
    connection = Peer(left.detach())
    descriptor = connection.fileno()
    other, next_one = socket.socketpair()
    late = threading.Thread(target=hang_up, args=(connection,))

    def close() -> None:
        os.close(descriptor)
        os.dup2(next_one.fileno(), descriptor)
        late.start()
        late.join(0.1)

    monkeypatch.setattr(connection, "_close", close)
    connection.close()
    late.join(LONGEST_S)
    with contextlib.closing(other), contextlib.closing(right), socket.socket(fileno=descriptor) as taken:
        next_one.close()
        other.sendall(b"a")
        assert taken.recv(1) == b"a"


def test_a_peer_may_take_less_time_to_prove_the_secret_than_to_answer(server):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ControlError, match="No connection"):
        connect(silent.getsockname(), SECRET, timeout=LONGEST_S, proving=0.1)  # its kernel accepts, as of a stopped process
    with (
        connect((server.host, server.port), SECRET, timeout=7.0, proving=LONGEST_S) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as same,
    ):
        limit = same.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.calcsize("ll"))
        assert struct.unpack("ll", limit)[0] == 7
