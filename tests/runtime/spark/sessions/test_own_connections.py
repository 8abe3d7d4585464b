"""PySpark's listeners in the driver serve this user only; what another user sends is read by nobody."""

import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from py4j.finalizer import ThreadSafeFinalizer  # noqa: F401 - py4j's own modules need it loaded
from py4j.java_gateway import CallbackServer, CallbackServerParameters, GatewayProperty
from pyspark import accumulators

from pystate.runtime.spark.sessions import own_connections
from pystate.runtime.spark.sessions.own_connections import guard_listeners, is_own
from tests.waiting import LONGEST_S, wait_until

STRANGER = 65534
ASK = (
    "import socket, sys\n"
    "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10)\n"
    "try:\n    s.sendall(sys.argv[2].encode().decode('unicode_escape').encode())\n    print(len(s.recv(1000)))\n"
    "except OSError:\n    print(0)\n"
)

as_stranger = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv, to be another user"
)


def asked_by_stranger(port, words):
    """Return how many bytes another user of this machine is answered."""
    who = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # one that everybody may read
    done = subprocess.run(
        [*who, python, "-c", ASK, str(port), words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    return int(done.stdout)


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            yield client, accepted


def test_a_unix_socket_is_asked_for_its_peer_too(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        accepted, _ = server.accept()
        with accepted:
            assert is_own(accepted)
            monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
            assert not is_own(accepted)


class Called:
    def __init__(self):
        self.times = 0

    def foo(self):
        self.times += 1
        return None


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def callbacks():
    """A callback server of py4j's with one object to call."""
    guard_listeners()
    called = Called()
    properties = GatewayProperty(False, {"p0": called})
    server = CallbackServer(properties.pool, None, 0, "127.0.0.1", CallbackServerParameters(port=0, daemonize=True))
    server.gateway_property = properties
    server.start()
    wait_until(lambda: listens(server.get_listening_port()))
    yield server.server_socket.getsockname()[1], called
    server.close()
    server.shutdown()


def ask(port, words):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(words)
        return connection.recv(1000)


def test_a_connection_of_this_users_is_own_and_one_that_was_closed_is_nobodys(pair):
    client, accepted = pair
    assert is_own(accepted)
    client.close()
    wait_until(lambda: not is_own(accepted))


def test_an_end_of_another_users_is_not_own(pair, monkeypatch):
    _, accepted = pair
    shown = list(own_connections._established())
    monkeypatch.setattr(own_connections, "_established", lambda: ((a, b, uid + 1) for a, b, uid in shown))
    assert not is_own(accepted)
    monkeypatch.setattr(own_connections, "_established", lambda: iter(()))
    assert is_own(accepted), "where the kernel shows no sockets nobody can tell"


def test_an_ipv6_socket_of_this_users_is_own_as_the_jvms_are():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as client:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            assert is_own(accepted)


def test_the_jvm_may_call_back(callbacks):
    port, called = callbacks
    assert ask(port, b"c\np0\nfoo\ne\n").startswith(b"!y")
    assert called.times == 1


@as_stranger
def test_a_stranger_calls_nothing_back(callbacks):
    port, called = callbacks
    assert asked_by_stranger(port, "c\\np0\\nfoo\\ne\\n") == 0
    assert ask(port, b"c\np0\nfoo\ne\n").startswith(b"!y"), "others are served as before"
    assert called.times == 1


@as_stranger
def test_a_stranger_does_not_hold_the_accumulators_place():
    guard_listeners()
    served = threading.Event()

    class Handler(accumulators.socketserver.StreamRequestHandler):
        def handle(self):
            self.rfile.read(1)  # as PySpark's waits for its token
            served.set()

    with accumulators.AccumulatorTCPServer(("127.0.0.1", 0), Handler, "token") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        port = server.server_address[1]
        assert asked_by_stranger(port, "x") == 0
        assert not served.is_set()
        ask(port, b"x")
        assert served.wait(LONGEST_S)
        server.shutdown()
        thread.join(LONGEST_S)
