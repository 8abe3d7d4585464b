"""What those can do to the REST endpoint who connect and send nothing, half a request, or nonsense."""

from __future__ import annotations

import errno
import functools
import gc
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.processes.rest_certificate import server_context
from pystate.ops.jobmanager.web import rest_connections, rest_server
from pystate.ops.jobmanager.web.rest_connections import RestConnections, RestListener, Stage
from tests.ops.jobmanager.harness import ManagerThread, eventually
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S

__all__ = ["certificate"]

Knock = Callable[..., socket.socket]
FEW = Configuration({"pystate.rest.max-connections": "16"})
HALVES = [
    b"",
    b"GET /jobs HT",
    b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"POST /savepoint-disposal HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    b"POST /jobs/" + b"a" * 32 + b"/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n",
]
NONSENSE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\r\n" * 100,
    b"\xff" * 5000,
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nnothing\r\n",
    b"GET /overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\xff\r\n\r\n",
    b"GET /overview HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    b"GET [ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 500_000,
    b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ManagerThread]:
    made = ManagerThread(tmp_path / "home")
    yield made
    made.stop()


@pytest.fixture
def knock() -> Iterator[Knock]:
    """Return a function that connects and says something, or nothing."""
    made: list[socket.socket] = []

    def connect(manager: ManagerThread, said: bytes = b"") -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", manager.port), timeout=LONGEST_S))
        with suppress(ConnectionError):
            made[-1].sendall(said)
        return made[-1]

    yield connect
    for one in made:
        one.close()


def heard(connection: socket.socket) -> bytes:
    """Return what the other side says until it hangs up."""
    data = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


def in_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let nothing take longer."""
    monkeypatch.setattr(rest_connections, "HANDSHAKE_SECONDS", seconds)
    monkeypatch.setattr(rest_connections, "BODY_SECONDS", seconds)
    monkeypatch.setattr(rest_connections, "_LATE_SECONDS", 0)


@pytest.mark.parametrize("half", HALVES, ids=lambda half: f"{half[:12]!r}{len(half)}")
def test_hundreds_of_halves_keep_nobody_out(manager: ManagerThread, knock: Knock, half: bytes) -> None:
    manager.start(FEW)
    threads = threading.active_count()
    crowd = [knock(manager, half) for _ in range(100)]
    for _ in range(3):
        assert manager.request("GET", "/jobs", token=False) == (200, {"jobs": []})
    heard(crowd[0])  # the first ones had to go
    assert threading.active_count() <= threads + 45  # those of the event loop's pool


@pytest.mark.parametrize("half", HALVES, ids=lambda half: f"{half[:12]!r}{len(half)}")
def test_what_is_not_finished_in_time_is_cut(
    manager: ManagerThread, knock: Knock, half: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_time(monkeypatch, 0.2)
    manager.start()
    heard(knock(manager, half))
    assert not [record for record in caplog.records if record.exc_info]


def test_a_slow_body_is_answered(manager: ManagerThread, knock: Knock, monkeypatch: pytest.MonkeyPatch) -> None:
    from pystate.ops.jobmanager.rest import app

    monkeypatch.setattr(app, "read_body", functools.partial(app.read_body, seconds=0.1))
    manager.start()
    slow, answer = knock(manager, HALVES[3]), b""
    while b"}" not in answer:
        answer += slow.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"has not arrived within 0.1 s" in answer


def test_nonsense_leaves_no_trace_but_one_line(
    manager: ManagerThread, knock: Knock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_server._requests.filters[0], "_said", {})
    in_time(monkeypatch, 0.5)
    manager.start()
    caplog.clear()
    for _ in range(3):
        for nonsense in NONSENSE:
            one = knock(manager, nonsense)
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
            answer = heard(one)
            assert not answer.startswith(b"HTTP/1.1 5"), (nonsense, answer)
            assert len(answer) < 4096
    assert manager.request("GET", "/jobs", token=False) == (200, {"jobs": []})
    loud = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [record for record in loud if record.exc_info]
    assert len({str(record.msg) for record in loud}) == len(loud)


def test_who_hangs_up_in_the_middle_leaves_no_trace(
    manager: ManagerThread, knock: Knock, caplog: pytest.LogCaptureFixture
) -> None:
    manager.start(FEW)
    for half in HALVES * 5:
        knock(manager, half).close()
    assert manager.request("GET", "/jobs", token=False) == (200, {"jobs": []})
    assert not [record for record in caplog.records if record.exc_info]


def test_without_a_handshake_tls_has_a_deadline_too(
    manager: ManagerThread, knock: Knock, monkeypatch: pytest.MonkeyPatch, certificate: tuple[str, str]
) -> None:
    in_time(monkeypatch, 0.2)
    names = ("security.ssl.rest.enabled", "pystate.security.ssl.rest.certificate", "pystate.security.ssl.rest.key")
    manager.start(Configuration(dict(zip(names, ("true", *certificate), strict=True))))
    assert heard(knock(manager)) == b""
    heard(knock(manager, b"\x16\x03\x01\x02\x00"))


def test_what_is_no_tls_on_the_port_of_tls_reaches_nothing_and_others_are_served(
    manager: ManagerThread, knock: Knock, monkeypatch: pytest.MonkeyPatch, certificate: tuple[str, str], caplog: Any
) -> None:
    in_time(monkeypatch, 0.5)
    names = ("security.ssl.rest.enabled", "pystate.security.ssl.rest.certificate", "pystate.security.ssl.rest.key")
    manager.start(Configuration(dict(zip(names, ("true", *certificate), strict=True))))
    plain = b"GET /overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for said in (plain, *NONSENSE, b"\x16\x03\x01\xff\xff" + b"\0" * 70_000):
        assert not heard(knock(manager, said)).startswith(b"HTTP/")

    client = ssl.create_default_context(cafile=certificate[0])
    client.check_hostname = False
    with client.wrap_socket(knock(manager)) as sound:
        assert sound.version() == "TLSv1.3"
        sound.sendall(plain)
        assert sound.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert not [record for record in caplog.records if record.exc_info]


def test_servers_refuse_renegotiation(certificate: tuple[str, str]) -> None:
    pem, key = certificate
    config = rest_server.RestConfig(lambda *_: None, RestConnections(16), ssl_certfile=pem, ssl_keyfile=key)  # type: ignore[arg-type,return-value]
    config.load()
    assert config.ssl is not None
    for context in (config.ssl, server_context((pem, key))):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(
    manager: ManagerThread, knock: Knock, certificate: tuple[str, str], version: ssl.TLSVersion
) -> None:
    names = ("security.ssl.rest.enabled", "pystate.security.ssl.rest.certificate", "pystate.security.ssl.rest.key")
    manager.start(Configuration(dict(zip(names, ("true", *certificate), strict=True))))
    client = ssl.create_default_context(cafile=certificate[0])
    client.check_hostname = False
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.TLSv1
    client.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.wrap_socket(knock(manager))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_too_many_open_files_are_waited_for_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    connections = RestConnections(16, clock)
    tries: list[int] = []

    def fail() -> tuple[socket.socket, object]:
        tries.append(1)
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.create_server(("127.0.0.1", 0)) as plain, RestListener(plain, connections) as listener:
        with socket.create_connection(listener.getsockname()) as silent:
            first, _ = listener.accept()
            for _ in range(3):
                with pytest.raises(OSError, match="Too many"):
                    connections.accept(fail)
                for _ in range(100):  # as often as the event loop asks
                    with pytest.raises(BlockingIOError):
                        connections.accept(fail)
                clock.now += 1
            assert len(tries) == 3
            assert silent.recv(1) == b""  # who says nothing makes room
            first.close()
        with socket.create_connection(listener.getsockname()):
            second, _ = listener.accept()
            assert len(connections) == 1
            second.close()
    assert len(connections) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "connections can't be accepted, and wait: [Errno 24] Too many open files",
        "connections are accepted again",
    ]


def test_the_event_loop_goes_on_after_too_many_open_files(
    manager: ManagerThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [errno.EMFILE, errno.ENFILE]
    real = RestListener.accept

    def accept(self: RestListener) -> object:
        def fail() -> tuple[socket.socket, object]:
            raise OSError(failures.pop(), "Too many open files")

        return self._connections.accept(fail) if failures else real(self)

    monkeypatch.setattr(RestListener, "accept", accept)
    manager.start()
    assert manager.request("GET", "/jobs", token=False) == (200, {"jobs": []})
    assert failures == []
    assert not [record for record in caplog.records if record.exc_info]


def test_each_request_has_its_own_time() -> None:
    clock = Clock()
    connections = RestConnections(16, clock)
    with socket.create_server(("127.0.0.1", 0)) as plain, RestListener(plain, connections) as listener:
        clients = [socket.create_connection(listener.getsockname(), timeout=LONGEST_S) for _ in range(3)]
        used, silent, uploads = (listener.accept()[0] for _ in clients)
        clock.now += 9
        connections.move(used, Stage.SERVING)
        connections.move(uploads, Stage.BODY)
        connections.look()
        clock.now += 2
        connections.look()
        assert clients[1].recv(1) == b""  # it is 11 s old and has asked for nothing
        connections.move(used, Stage.SILENT)
        clock.now += 32
        connections.move(used, Stage.SERVING)
        connections.look()
        assert uploads.stage is Stage.BODY
        clock.now += 1
        connections.look()
        assert clients[2].recv(1) == b""
        clients[0].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[0].recv(1)
        for one in (used, silent, uploads, *clients):
            one.close()


def test_everything_is_forgotten_in_the_end(manager: ManagerThread, knock: Knock) -> None:
    manager.start(FEW)
    # the manager's own, found by what it keeps
    made = [one for one in gc.get_objects() if isinstance(one, RestConnections)]
    for half in HALVES * 10:
        knock(manager, half).close()
    eventually(lambda: all(len(one) == 0 for one in made))
    assert all(len(limiter) == 0 for one in made for limiter in one._limiters.values())
