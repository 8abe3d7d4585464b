"""What the processes of a job send each other with `security.ssl.internal.enabled`: nobody reads it, and nobody joins in."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import socket
import ssl
import threading

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, ControlError
from pystate.common.processes import tls_session
from pystate.common.processes.control import (
    AuthenticatedListener,
    ControlClient,
    ControlServer,
    connect,
    new_secret,
    receive_message,
    send_message,
)
from pystate.common.processes.internal_certificate import connection_secret
from pystate.common.processes.tls_session import pem_of, secret_with, tls_sessions
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S

__all__ = ["certificate"]

ENABLED = {"security.ssl.internal.enabled": "true"}
MARK = b"a word that stands in a message"


@pytest.fixture(scope="module")
def secret():
    return connection_secret(Configuration(ENABLED))


@contextlib.contextmanager
def serving(secret, handler=lambda request: request["said"]):
    server = ControlServer(secret, handler)
    server.start()
    try:
        yield server
    finally:
        server.close()


class Tap:
    """Passes bytes on between a client and a server, and keeps them."""

    def __init__(self, server):
        self.passed = []
        self._server = (server.host, server.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            client, _ = self._listening.accept()
            server = socket.create_connection(self._server)
            threading.Thread(target=self._pass, args=(server, client), daemon=True).start()
            self._pass(client, server)

    def _pass(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.passed.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listening.close()


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_is_sent_can_be_read_on_its_way_only_without_tls(secret, encrypted):
    chosen = secret if encrypted else new_secret()
    with serving(chosen) as server, contextlib.closing(Tap(server)) as tap:
        client = ControlClient("127.0.0.1", tap.port, chosen)
        assert client.call("say", said=MARK) == MARK
        client.close()
        assert (MARK in b"".join(tap.passed)) is not encrypted


def test_a_byte_that_is_changed_on_its_way_ends_the_connection(secret):
    with serving(secret) as server, contextlib.closing(Tap(server)) as tap:
        client = ControlClient("127.0.0.1", tap.port, secret)
        assert client.call("say", said=1) == 1
        # the client's next record, with one bit turned
        peer = client._connection
        good = peer.session.encrypt(b"\0\0\0\1a")
        damaged = good[:-1] + bytes([good[-1] ^ 1])
        peer._write(damaged)
        with pytest.raises((EOFError, OSError)):
            receive_message(peer)


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, (1 << 20) + 1, 5_000_000])
def test_messages_of_every_size_arrive(secret, size):
    data = bytes(range(256)) * (size // 256 + 1)
    with serving(secret) as server:
        client = ControlClient(server.host, server.port, secret)
        assert client.call("say", said=data[:size]) == data[:size]
        client.close()


def test_one_thread_sends_while_another_receives(secret):
    count, ended = 300, threading.Event()

    def send_all(connection):
        for number in range(count):
            send_message(connection, [number, b"s" * 9_000])

    def exchange(connection):
        sender = threading.Thread(target=send_all, args=(connection,))
        sender.start()
        assert [receive_message(connection)[0] for _ in range(count)] == list(range(count))
        sender.join()

    def serve(connection):
        exchange(connection)
        ended.set()

    listener = AuthenticatedListener(secret, serve, name="both")
    listener.start()
    with connect(listener.address, secret) as connection:
        exchange(connection)
        assert ended.wait(LONGEST_S)
    listener.close()


def test_who_knows_the_secret_but_has_another_certificate_is_refused(secret):
    word = secret.split(b"\n", 1)[0]
    other = secret_with(word, pem_of(connection_secret(Configuration(ENABLED))))
    heard = []
    with serving(secret, heard.append) as server:
        with pytest.raises(ControlError):
            ControlClient(server.host, server.port, other).call("say", said=1)
        assert heard == []
        client = ControlClient(server.host, server.port, secret)
        client.call("say", said=2)
        client.close()
        assert [request["said"] for request in heard] == [2]


def test_who_has_the_certificate_but_not_the_secret_is_refused(secret):
    with serving(secret) as server, pytest.raises(ControlError, match="does not share our secret"):
        connect((server.host, server.port), secret_with(new_secret(), pem_of(secret)), timeout=LONGEST_S)


def test_a_server_without_tls_is_told_nothing(secret):
    heard = []
    with serving(secret.split(b"\n", 1)[0], heard.append) as server:
        with pytest.raises(ControlError):
            connect((server.host, server.port), secret, timeout=LONGEST_S)
    assert heard == []


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10#CHALLENGE#"])
def test_who_sends_nonsense_keeps_nobody_out(secret, said):
    with serving(secret) as server:
        with socket.create_connection((server.host, server.port)) as odd:
            odd.sendall(said)
        client = ControlClient(server.host, server.port, secret)
        assert client.call("say", said=3) == 3
        client.close()


def test_only_the_newest_tls_is_spoken(secret):
    with serving(secret) as server:
        older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        older.check_hostname, older.verify_mode = False, ssl.CERT_NONE
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((server.host, server.port)) as connection, pytest.raises(ssl.SSLError):
            older.wrap_socket(connection)


def test_a_listener_goes_on_when_there_is_no_room_for_files_any_more(secret, monkeypatch):
    with serving(secret) as server:
        client = ControlClient(server.host, server.port, secret)
        tls_session._context.cache_clear()  # as many other jobs would
        assert tls_sessions(secret, server=False) is not None
        monkeypatch.setattr(tls_session, "tempfile", None)
        other = ControlClient(server.host, server.port, secret)
        assert [one.call("say", said=5) for one in (client, other)] == [5, 5]
        client.close()
        other.close()


def test_sockets_of_one_machine_are_not_encrypted(secret, tmp_path):
    listener = AuthenticatedListener(
        secret, lambda peer: send_message(peer, type(peer).__name__), path=str(tmp_path / "s"), name="u"
    )
    listener.start()
    with connect(listener.address, secret) as connection:
        assert receive_message(connection) == "Peer"
    listener.close()


def test_each_secret_has_a_certificate_of_its_own_and_without_the_option_none():
    first, second = (connection_secret(Configuration(ENABLED)) for _ in range(2))
    assert pem_of(first)
    assert pem_of(first) != pem_of(second)
    assert pem_of(connection_secret(Configuration())) == b""
    assert tls_sessions(new_secret(), server=True) is None


def files(pem, key):
    return {**ENABLED, "pystate.security.ssl.internal.certificate": str(pem), "pystate.security.ssl.internal.key": str(key)}


def test_a_certificate_from_files_is_used_by_both_sides(certificate):
    chosen = connection_secret(Configuration(files(*certificate)))
    with serving(chosen) as server:
        client = ControlClient(server.host, server.port, chosen)
        assert client.call("say", said=4) == 4
        client.close()


def test_files_that_do_not_do_are_refused_with_the_option(certificate, tmp_path):
    pem, key = certificate
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    locked = tmp_path / "locked.key"
    locked.write_bytes(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
    for options in (files(empty, key), files(pem, empty), files(key, pem), files(pem, locked), files(tmp_path / "no", key)):
        with pytest.raises(ConfigurationError) as caught:
            connection_secret(Configuration(options))
        assert "pystate.security.ssl.internal.certificate" in str(caught.value.where)
    with pytest.raises(ConfigurationError, match="belong together"):
        connection_secret(Configuration({**ENABLED, "pystate.security.ssl.internal.key": str(key)}))


def test_without_the_library_that_makes_certificates_the_extra_is_named(monkeypatch):
    load = importlib.import_module

    def missing(name, *rest):
        if name.startswith("cryptography"):
            raise builtins.ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError) as caught:
        connection_secret(Configuration(ENABLED))
    assert "pystate-spark[tls]" in caught.value.hint
