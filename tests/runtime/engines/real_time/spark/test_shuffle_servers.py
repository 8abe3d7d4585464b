"""The ports of Spark's streaming shuffle are closed once its readers have come; another user among them ends the attempt.

That Spark's own objects are found, and closed in a job, is tried by `tests/security/test_all_ports.py`.
"""

import pytest

from pystate.common.errors import JobExecutionError
from pystate.runtime.engines.real_time.spark import shuffle_servers
from pystate.runtime.engines.real_time.spark.shuffle_servers import ShuffleServers

PORT_OF_WRITER = 4000


class Address:
    def __init__(self, port):
        self.port = port

    def getAddress(self):
        return self

    def getHostAddress(self):
        return "127.0.0.1"

    def getPort(self):
        return self.port


class Reader:
    """The future of a connection, the connection and its channel."""

    def __init__(self, port):
        self.port = port

    def isDone(self):
        return self.port is not None

    def get(self):
        return self

    def getChannel(self):
        return self

    def localAddress(self):
        return Address(PORT_OF_WRITER)

    def remoteAddress(self):
        return Address(self.port)


class Server:
    """A server, the future of its channel, and the channel."""

    def __init__(self, *readers):
        self.readers = [Reader(port) for port in readers]
        self.closed = False

    def channel(self):
        return self

    def close(self):
        self.closed = True
        return self

    def awaitUninterruptibly(self):
        return self


class Servers(ShuffleServers):
    """Those of some writers, each of which is its own server and handler."""

    def __init__(self, count, *writers):
        super().__init__(None, count, "a query")
        self.writers = list(writers)

    def _writers(self):
        yield from self.writers

    def _field(self, owner, name, of):
        return of.readers if name == "futureClients" else of


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Which ports belong to this user."""
    ports = {1, 2, 3, 4}
    monkeypatch.setattr(
        shuffle_servers, "is_own_address", lambda here, there: here[1] == PORT_OF_WRITER and there[1] in ports
    )
    return ports


def test_a_server_stays_open_until_all_its_readers_have_come():
    first, second = Server(1, 2), Server(3, None)
    servers = Servers(2, first, second)
    assert not servers.close()
    assert (first.closed, second.closed) == (True, False)
    second.readers[1].port = 4
    assert servers.close()
    assert second.closed


def test_a_writer_that_has_not_come_yet_is_waited_for():
    servers = Servers(2, Server(1))
    assert not servers.close()
    servers.writers.append(Server(2))
    assert servers.close()


def test_a_job_without_a_shuffle_has_none():
    assert Servers(0).close()


def test_another_user_who_has_taken_a_readers_place_ends_the_attempt(ours):
    ours.remove(2)
    server = Server(1, 2)
    with pytest.raises(JobExecutionError, match="Another user of this machine"):
        Servers(1, server).close()
    assert server.closed
