"""Malformed requests, by the thousand: the proxy and the slot's server go on, leak nothing, and serve others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest

from pystate.common.errors import PystateError
from pystate.common.processes.control import ControlClient, connect
from pystate.core.queryable.handshake import ClientHandshake, ProxyHandshake
from pystate.core.queryable.kv_state_messages import MAX_REQUEST_BYTES
from pystate.core.queryable.proxy.client_connection import ClientConnection
from tests.core.queryable.proxy.test_kv_state_client_proxy import job_of_sums
from tests.core.queryable.proxy.toy_slots import JOB, TOKEN, ToyJob, toy_client, toy_proxy
from tests.waiting import LONGEST_S, wait_until

FEW, MANY = 3_000, 100_000
HEAD = struct.Struct(">I")
GROWTH = 48 << 20
"""More memory than what a run leaves behind in caches and arenas."""

ATOMS = [
    None,
    True,
    0,
    -1,
    1 << 63,
    1.5,
    "",
    "sums",
    JOB,
    "read",
    "locate",
    "live",
    "checkpointed",
    b"",
    b"\x01k1",
    b"\xff" * 9,
]
NAMES = ["id", "op", "job", "name", "consistency", "reads", "version", "nonce", "proof", ""]
WHOLE = {
    "id": 1,
    "op": "read",
    "job": JOB,
    "consistency": "live",
    "reads": [["sums", b"\x01k1", None, 100, None, None]],
}


class Requests:
    """Makes requests that are wrong in many ways, and some that are right.

    Args:
        seed: Of all of them.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, depth: int = 0) -> object:
        chosen = self._random
        if depth > 3 or chosen.random() < 0.6:
            return chosen.choice(ATOMS)
        if chosen.random() < 0.5:
            return [self.value(depth + 1) for _ in range(chosen.randrange(8))]
        return {chosen.choice(NAMES): self.value(depth + 1) for _ in range(chosen.randrange(6))}

    def payload(self) -> bytes:
        """Return what a frame may hold."""
        chosen = self._random
        kind = chosen.randrange(6)
        if kind == 0:
            return chosen.randbytes(chosen.randrange(80))
        if kind == 1:
            return bytes(msgpack.packb(self.value()))
        message = dict(WHOLE)
        for _ in range(chosen.randrange(4)):
            message[chosen.choice(NAMES)] = self.value()
        if kind == 2:
            message["reads"] = [[*WHOLE["reads"][0][: chosen.randrange(7)], self.value()]]  # type: ignore[index]
        data = bytearray(msgpack.packb(message))
        if kind == 3:
            for _ in range(1 + chosen.randrange(4)):
                data[chosen.randrange(len(data))] = chosen.randrange(256)
        if kind == 4:
            del data[chosen.randrange(len(data)) :]
        if kind == 5:
            return b"\x91" * chosen.randrange(2_000) + bytes(data)
        return bytes(data)

    def frame(self) -> bytes:
        """Return a frame whose length may be wrong, too."""
        payload, chosen = self.payload(), self._random
        length = len(payload)
        if chosen.random() < 0.1:
            length = chosen.choice([0, length + 1, MAX_REQUEST_BYTES, MAX_REQUEST_BYTES + 1, (1 << 32) - 1, 1 << 31])
        return HEAD.pack(length) + payload

    def hangs_up(self) -> bool:
        return self._random.random() < 0.05


class Attacker:
    """A raw connection to a proxy, opened anew when it is cut.

    Args:
        address: The proxy's.
        proven: Whether it proves the token first.
    """

    def __init__(self, address: tuple[str, int], *, proven: bool) -> None:
        self._address = address
        self._proven = proven
        self._socket: socket.socket | None = None
        self.connections = 0

    def send(self, data: bytes) -> None:
        try:
            self._connected().sendall(data)
            self._read_all()
        except OSError:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=LONGEST_S)
            self.connections += 1
            greeting = self._receive()
            if self._proven:
                handshake = ClientHandshake(TOKEN)
                proof = msgpack.packb(handshake.proof(greeting))
                self._socket.sendall(HEAD.pack(len(proof)) + proof)
                handshake.check(self._receive())
            self._socket.settimeout(0)
        return self._socket

    def _receive(self) -> dict:
        assert self._socket is not None
        (length,) = HEAD.unpack(self._socket.recv(HEAD.size, socket.MSG_WAITALL))
        return msgpack.unpackb(self._socket.recv(length, socket.MSG_WAITALL))

    def _read_all(self) -> None:
        """Take what was answered so far; closed by the other side is an error."""
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                if not self._socket.recv(1 << 16):
                    raise ConnectionResetError


def left_behind() -> dict[str, int]:
    """Return how many of the things that connections are made of there are in this process."""
    gc.collect()
    kinds = (ClientConnection, ProxyHandshake, asyncio.Task)
    found = Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, kinds))
    return {**found, "descriptors": len(os.listdir("/proc/self/fd"))}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def others_are_served(job: ToyJob, proxy) -> Iterator[Callable[[], int]]:
    """Ask right questions all the while; give what counts the answers."""
    ended, answers, errors = threading.Event(), Counter(), []

    def ask() -> None:
        with toy_client(proxy) as client:
            try:
                while not ended.is_set():
                    answers[client.get_kv_state(JOB, "sums", "k7").result(LONGEST_S).value()] += 1
            except Exception as error:  # shown below
                errors.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answers.total
    finally:
        ended.set()
        thread.join(LONGEST_S)
    assert not errors, errors
    assert set(answers) == {7}


@pytest.mark.parametrize("proven", [True, False], ids=["with the token", "without"])
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_the_proxy_survives_malformed_requests_and_serves_others_meanwhile(count, proven):
    job = job_of_sums(2)
    requests = Requests(18)
    with toy_proxy(job) as proxy:
        attacker = Attacker(proxy.address, proven=proven)
        with others_are_served(job, proxy) as served:
            wait_until(served)
            for _ in range(100):
                attacker.send(requests.frame())
            attacker.close()
            wait_until(lambda: proxy.connection_count == 1)
            things, memory, before = left_behind(), resident_bytes(), served()
            for _ in range(count):
                attacker.send(requests.frame())
                if requests.hangs_up():
                    attacker.close()
            attacker.close()
            wait_until(lambda: served() > before)
            wait_until(lambda: proxy.connection_count == 1)
            # a query that is under way has a few tasks
            wait_until(lambda: all(number <= things[name] + 8 for name, number in left_behind().items()))
            assert resident_bytes() - memory < GROWTH
    assert attacker.connections > 10


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_slots_server_survives_malformed_requests_of_whoever_knows_the_secret(count):
    job = job_of_sums(1)
    address = job.servers[0].address
    requests = Requests(19)
    try:
        others = ControlClient(*address, job.secret)
        connection = connect(address, job.secret, timeout=LONGEST_S)
        for _ in range(count):
            payload = requests.payload()
            try:
                connection.send_bytes(payload)
                reply = msgpack.unpackb(connection.recv_bytes())
                assert "ok" in reply
            except (EOFError, OSError):
                connection.close()
                connection = connect(address, job.secret, timeout=LONGEST_S)
        connection.close()
        (answer,) = others.call("read", consistency="live", reads=[["sums", b"\x01k1", None, 1, None, None]])
        assert answer[0] == "OK"
        with pytest.raises(PystateError, match="does not know the op"):
            others.call("nothing")
        others.close()
    finally:
        job.end_attempt()


def test_silent_connections_are_cut_for_new_ones_and_clients_still_come_in():
    job = job_of_sums(1)
    with toy_proxy(job) as proxy:
        silent = [socket.create_connection(proxy.address) for _ in range(200)]
        with toy_client(proxy) as client:
            assert client.get_kv_state(JOB, "sums", "k1").result(LONGEST_S).value() == 1
            assert proxy.connection_count < 200
        for one in silent:
            one.close()
        wait_until(lambda: proxy.connection_count == 0)
