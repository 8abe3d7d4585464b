"""Requests that a proxy and the job manager could read differently, on raw sockets, with TLS and without."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from tests.ops.jobmanager.harness import ManagerThread
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S

__all__ = ["certificate"]

Say = Callable[[bytes], bytes]
HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /jobs/" + b"a" * 32 + b"/stop HTTP/1.1\r\n" + HOST
SMUGGLED = b"GET /overview HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = [
    POST + b"Content-Length: 6\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    POST + CHUNKED + b"Content-Length: 6\r\n\r\n0\r\n\r\n" + SMUGGLED,
    POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: 2\r\ncontent-LENGTH: 0\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: 2, 2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: +2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: 0x2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: 2_0\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: \xb2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length:\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length : 2\r\n\r\n{}" + SMUGGLED,
    POST + b"Content-Length: " + b"0" * 30 + b"2\r\n\r\n{}" + SMUGGLED,
    POST + b"X: 1\r\n Content-Length: 2\r\n\r\n{}" + SMUGGLED,
    POST + b"X: 1\r\n\tfolded\r\n\r\n" + SMUGGLED,
    POST + b" Content-Length: 2\r\n\r\n{}" + SMUGGLED,
    POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    POST.replace(b"/1.1", b"/1.0") + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    b"GET /overview HTTP/1.1\n" + HOST + b"\r\n" + SMUGGLED,
    b"GET /overview HTTP/1.1\r\nHost: 127.0.0.1\n\n" + SMUGGLED,
    b"GET /overview HTTP/1.1\r\n" + HOST + b"X: 1\rContent-Length: 2\r\n\r\n" + SMUGGLED,
    b"GET /overview HTTP/1.1\r\n" + HOST + b"X: 1\r\r\n\r\n" + SMUGGLED,
    b"GET /overview HTTP/1.1\r\n" + HOST + b"X: 1\0\r\n\r\n" + SMUGGLED,
    b"GET /overview\x0bHTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    POST + CHUNKED + b"\r\n2\n{}\r\n0\r\n\r\n" + SMUGGLED,
    POST + CHUNKED + b"\r\n2\r\n{}X0\r\n\r\n" + SMUGGLED,
    POST + CHUNKED + b"\r\n-2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    POST + CHUNKED + b"\r\n0x2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    POST + CHUNKED + b"\r\n0\r\nX: 1\n\r\n" + SMUGGLED,
]


@pytest.fixture(params=["plain", "tls"])
def say(request: pytest.FixtureRequest, tmp_path: Path, certificate: tuple[str, str]) -> Iterator[Say]:
    """Return a function that sends bytes on a new connection, and returns all that is answered until the end."""
    names = ("security.ssl.rest.enabled", "pystate.security.ssl.rest.certificate", "pystate.security.ssl.rest.key")
    is_tls = request.param == "tls"
    manager = ManagerThread(tmp_path / "home")
    manager.start(Configuration(dict(zip(names, ("true", *certificate), strict=True)) if is_tls else {}))
    client = ssl.create_default_context(cafile=certificate[0])
    client.check_hostname = False

    def ask(said: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", manager.port), timeout=LONGEST_S) as plain:
            connection = client.wrap_socket(plain) if is_tls else plain
            answer = b""
            with suppress(ConnectionError), connection:
                connection.sendall(said)
                while part := connection.recv(65536):
                    answer += part
            return answer

    try:
        yield ask
    finally:
        manager.stop()


def test_what_is_ambiguous_is_refused_and_the_connection_ends(say: Say) -> None:
    answers = {said: say(said) for said in AMBIGUOUS}
    wrong = {
        said: answer
        for said, answer in answers.items()
        if not answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")) or answer.count(b"HTTP/1.1 ") != 1
    }
    assert wrong == {}


def test_after_a_sound_request_on_the_same_connection_it_is_refused_too(say: Say) -> None:
    sound = b"GET /overview HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}"
    chunked = b"GET /overview HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n2;a=b\r\n{}\r\n0\r\nTrailer: 1\r\n\r\n"
    answer = say(sound + chunked + AMBIGUOUS[0])
    assert [answer.count(status) for status in (b"HTTP/1.1 200 ", b"HTTP/1.1 400 ", b"HTTP/1.1 ")] == [2, 1, 3]
