"""A slot that is stopped while the driver fetches its output: the system takes the connection, and nobody answers."""

import socket

import pytest

from pystate.common.errors import ControlError
from pystate.runtime.engines.micro_batch.spark import exchange
from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory, fetch_output


def test_the_driver_does_not_wait_for_ever_for_a_slot_that_says_nothing(monkeypatch):
    monkeypatch.setattr(exchange, "ANSWER_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slots = SlotDirectory("a" * 32, 0, b"secret", [silent.getsockname()])
        with pytest.raises(ControlError, match="No connection to the process"):
            list(fetch_output(slots, "count", 0, 1, 0))
