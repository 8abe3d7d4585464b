"""TLS of connections between the processes of a job, whose secret carries the certificate of both sides.

As in Flink (`security.ssl.internal.enabled`), the same certificate proves both sides, and nothing else is trusted: neither
another certificate of the same authority nor the roots of the operating system. Host names are not compared.
"""

from __future__ import annotations

import functools
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

_PEM_BEGINS = b"-----BEGIN "
RECEIVED_BYTES = 1 << 18
"""How much is read at a time."""
ENCRYPTED_BYTES = 1 << 20
"""How much is encrypted at a time: the library keeps the encrypted bytes of a call in memory."""


def secret_with(secret: bytes, pem: bytes) -> bytes:
    """Return a secret with which connections are encrypted.

    Args:
        secret: A secret without a certificate.
        pem: A certificate and its private key, in PEM.
    """
    return secret + b"\n" + pem


def pem_of(secret: bytes) -> bytes:
    """Return the certificate and the key that a secret carries; nothing for connections without TLS."""
    _, begins, rest = secret.partition(_PEM_BEGINS)
    return begins + rest


def tls_sessions(secret: bytes, *, server: bool) -> Callable[[], TlsSession] | None:
    """Return what makes a session for each new connection; None if the secret carries no certificate.

    Args:
        secret: The secret.
        server: Whether this side accepts the connections.

    Raises:
        ssl.SSLError: The certificate is damaged, or isn't the key's.
        OSError: There is no room for a file of the certificate, which is there for a moment.
    """
    pem = pem_of(secret)
    return functools.partial(TlsSession, _context(pem, server), server=server) if pem else None


@functools.lru_cache(maxsize=8)
def _context(pem: bytes, server: bool) -> ssl.SSLContext:  # noqa: FBT001 - a key of the cache
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    # the certificate itself is the root, whatever has signed it
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with tempfile.TemporaryDirectory() as folder:  # the library reads keys from files only; mode 0700
        path = Path(folder, "certificate.pem")
        path.write_bytes(pem)
        context.load_cert_chain(path, password=no_password)
    first = pem[: pem.index(b"-----END CERTIFICATE-----") + len(b"-----END CERTIFICATE-----")]
    context.load_verify_locations(cadata=first[first.index(b"-----BEGIN CERTIFICATE-----") :].decode("ascii"))
    if server:
        context.num_tickets = 0  # each connection proves itself again
    return context


def no_password() -> str:
    """Refuse an encrypted key: else the library would ask for the password on the terminal."""
    message = "the key is encrypted"
    raise ValueError(message)


class TlsSession:
    """The state of TLS of one connection, which reads and writes no socket itself.

    One thread may encrypt while another decrypts. What is encrypted must be sent in that order.

    Args:
        context: The settings.
        server: Whether this side has accepted the connection.
    """

    def __init__(self, context: ssl.SSLContext, *, server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._lock = threading.Lock()  # the library may not read and write at the same time

    def shake_hands(self, receive: Callable[[int], bytes], send: Callable[[bytes], object]) -> None:
        """Agree on keys with the peer, and check its certificate.

        Args:
            receive: Returns received bytes, at most as many as it is called with; none at the end of the connection.
            send: Sends all of the bytes.

        Raises:
            ssl.SSLError: The peer has another certificate, or doesn't speak TLS.
            EOFError: It has closed the connection.
        """
        received = b""
        while not self.step(received, send):
            if not (received := receive(RECEIVED_BYTES)):
                raise EOFError

    def step(self, received: bytes | bytearray, send: Callable[[bytes], object]) -> bool:
        """Go on with the handshake with what was received since; return whether this side is done.

        Args:
            received: The bytes.
            send: Is called with the bytes to send, if there are any.

        Raises:
            ssl.SSLError: The peer has another certificate, or doesn't speak TLS.
        """
        self._incoming.write(received)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            done = False
        else:
            done = True
        finally:
            if answer := self._outgoing.read():  # of a failure: why, for the peer
                send(answer)
        return done

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Return the bytes to send for some data."""
        rest = memoryview(data).cast("B")
        with self._lock:
            while rest:
                rest = rest[self._object.write(rest) :]
            return self._outgoing.read()

    def feed(self, received: bytes) -> None:
        """Take received bytes."""
        with self._lock:
            self._incoming.write(received)

    def take(self, most: int = RECEIVED_BYTES) -> bytes:
        """Return some of the data that was received completely; nothing if more must be received first.

        Raises:
            EOFError: The peer has ended its side.
            ssl.SSLError: What was received isn't the peer's.
        """
        with self._lock:
            try:
                data = self._object.read(most)
            except ssl.SSLWantReadError:
                return b""
        if not data:
            raise EOFError
        return data

    def take_all(self) -> bytes:
        """Return all of the data that was received completely; raises the same errors as `take`."""
        found = []
        while data := self.take():
            found.append(data)
        return b"".join(found)


class TlsSocket:
    """A connected, non-blocking socket with TLS: the methods of `socket.socket` that an event loop of ours calls.

    Args:
        connection: The socket, which it owns from now on.
        session: The session, whose handshake is done.
    """

    def __init__(self, connection: socket.socket, session: TlsSession) -> None:
        self._socket = connection
        self._session = session
        self._unsent = memoryview(b"")
        self._sending = 0

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - as in the standard library
        """Set whether reads and writes wait."""
        self._socket.setblocking(flag)

    def recv(self, size: int) -> bytes:
        """Return received data, possibly more than `size` bytes; none at the end of the connection.

        Raises:
            BlockingIOError: There is none yet.
        """
        data = self._session.take_all()  # that came with the handshake
        while not data:
            received = self._socket.recv(size)
            if not received:
                return b""
            self._session.feed(received)
            data = self._session.take_all()
        return data

    def send(self, data: memoryview) -> int:
        """Send some of the data and return how much.

        Raises:
            BlockingIOError: It can't be sent completely yet; the next call must be with the same data.
        """
        if not self._unsent:
            self._sending = min(len(data), ENCRYPTED_BYTES)
            self._unsent = memoryview(self._session.encrypt(data[: self._sending]))
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        return self._sending

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
