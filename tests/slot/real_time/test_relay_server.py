"""The connections of a slot to its relays: the end of either side is the other's, too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common.control import connect
from pystate.common.errors import ControlError
from pystate.slot.real_time.relay_server import RelayHeader, RelayPort, RelayServer, introduce
from tests.waiting import wait_until

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
        introduce(connection, RelayHeader("job", 2, 0, 1, 0))
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


def test_a_relay_that_is_gone_fails_its_subtask_and_may_be_closed_behind_that(served):
    port, lost, come = served
    come().close()
    (error,) = wait_until(lambda: list(lost))
    assert "The relay of a subtask is gone while records may be under way" in error.message
    port.close()
    with pytest.raises(ControlError, match="had another relay before"):
        come()
