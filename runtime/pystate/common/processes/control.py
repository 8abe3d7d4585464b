"""Authenticated message connections between our processes.

`multiprocessing.connection` gives framing and a mutual HMAC challenge over a shared secret; the messages are msgpack, never
pickle. Pickled bytes in a message, such as the functions of a job, are unpickled only by the side that opened the
connection, to an address from another source: a peer that connects to a listener and proves its secret can only send data.

A secret may carry a certificate (`tls_session.py`): connections to ports are encrypted then, those to Unix sockets are not.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import logging
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import TYPE_CHECKING, Any

import msgpack

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ConnectionLostError, ControlError, PystateError, error_from_dict
from pystate.common.overrides import override
from pystate.common.processes.connection_limiter import ConnectionLimiter, cut_descriptor, peer_name, places
from pystate.common.processes.length_prefixed_frames import framed
from pystate.common.processes.tls_session import ENCRYPTED_BYTES, RECEIVED_BYTES, TlsSession, TlsSocket, tls_sessions
from pystate.common.text.bounded_text import text_of

logger = logging.getLogger(__name__)

Address = tuple[str, int] | str
"""The address of a listener: (host, port), or the path of a Unix socket."""

if TYPE_CHECKING:
    _Connection = Connection[Any, Any]
else:  # generic in the type stubs only
    _Connection = Connection

HEARTBEAT_TIMEOUT_S = 50.0
"""Flink's default of `heartbeat.timeout`: a process that is silent for this time is lost."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The error numbers of `accept` if there are too many open files."""
_MOST_UNPROVEN = 256
_MOST_UNPROVEN_OF_PEER = 128
_LONGEST_PATH = 100
"""Bytes of the path of a Unix socket, of which the kernel takes 107; a longer one is answered with a port."""
_BACKLOG = 1024
_BACK_OFF_SECONDS = 0.1
_SAID_EVERY_SECONDS = 60.0
_TRIES = 3
"""How often to reconnect to a listener that cuts the connection before authentication: it may be overloaded by others."""


class Peer(_Connection):
    """A connection that one thread may close while another hangs up on it: see `hang_up`.

    Args:
        descriptor: That of a connected socket, which the connection owns from now on.

    Attributes:
        closing: Held while it is closed.
        session: That of TLS; None if nothing is encrypted.
    """

    session: TlsSession | None = None

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.closing = threading.Lock()

    def shake_hands(self) -> None:
        """Agree on keys with the peer if anything is encrypted; raises an OSError or EOFError."""

    @override
    def close(self) -> None:
        with self.closing:
            super().close()


class TlsPeer(Peer):
    """A connection whose bytes are encrypted.

    Args:
        descriptor: That of a connected socket, which the connection owns from now on.
        session: The session; its handshake is to come.
    """

    def __init__(self, descriptor: int, session: TlsSession) -> None:
        super().__init__(descriptor)
        self.session: TlsSession = session

    @override
    def shake_hands(self) -> None:
        self.session.shake_hands(functools.partial(os.read, self.fileno()), self._write)

    def _write(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[os.write(self.fileno(), unsent) :]

    # the framing of the standard library calls these two for all that it sends and receives

    def _send(self, buf: bytes | memoryview, *_: object) -> None:
        data = memoryview(buf)
        for start in range(0, len(data), ENCRYPTED_BYTES):
            self._write(self.session.encrypt(data[start : start + ENCRYPTED_BYTES]))

    def _recv(self, size: int, *_: object) -> io.BytesIO:
        received, left = io.BytesIO(), size
        while left:
            data = self.session.take(left)
            if data:
                received.write(data)
                left -= len(data)
                continue
            encrypted = os.read(self.fileno(), RECEIVED_BYTES)
            if not encrypted:
                raise EOFError
            self.session.feed(encrypted)
        return received


def _peer(descriptor: int, sessions: Callable[[], TlsSession] | None) -> Peer:
    """Return the connection of a connected socket, encrypted if there is what makes sessions."""
    return Peer(descriptor) if sessions is None else TlsPeer(descriptor, sessions())


def socket_of(connection: Peer) -> socket.socket:
    """Return a socket of its own for an authenticated connection that is to be closed; what it carries may be encrypted."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def loop_socket(connection: Peer) -> socket.socket | TlsSocket:
    """Return the same with methods that encrypt and decrypt, if the connection does."""
    made = socket_of(connection)
    return made if connection.session is None else TlsSocket(made, connection.session)


def new_secret() -> bytes:
    """Return 32 fresh random bytes as hex."""
    return secrets.token_hex(32).encode()


def send_message(connection: Peer, message: Any) -> None:
    """Send one msgpack message. Any Python text is allowed, since messages of exceptions have arbitrary origins."""
    connection.send_bytes(_packed(message))


def receive_message(connection: Peer) -> Any:
    """Receive one msgpack message; raises EOFError or OSError when the peer is gone."""
    return _unpacked(connection.recv_bytes())


def _packed(message: Any) -> bytes:
    data: bytes = msgpack.packb(message, use_bin_type=True, unicode_errors="surrogatepass")
    return data


def _unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogatepass")


def connect(address: Address, secret: bytes, *, timeout: float | None = None, proving: float | None = None) -> Peer:
    """Connect to an `AuthenticatedListener`.

    Args:
        address: Where it listens.
        secret: What both sides prove.
        timeout: Seconds that connecting, and later every single read and write, may take; None waits for ever. A read or
            write that takes longer raises an OSError.
        proving: The same until both sides have proved the secret, where it differs.

    Raises:
        ControlError: No process listens there, or the peer does not share the secret.
    """
    for remaining in reversed(range(_TRIES)):
        try:
            connection = _connect(address, secret, timeout if proving is None else proving)
            if proving is not None and timeout is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as found:
                    _limit(found, timeout)
            return connection
        except AuthenticationError as error:
            message = f"The process at {address} does not share our secret."
            raise ControlError(message) from error
        except (EOFError, ConnectionResetError, BrokenPipeError) as error:
            if not remaining:
                message = f"The process at {address} has cut the connection: {error!r}"
                raise ControlError(message) from error
        except (OSError, AssertionError, ValueError) as error:
            message = f"No connection to the process at {address}: {error}"
            raise ControlError(message) from error
    raise AssertionError


def _limit(connected: socket.socket, seconds: float) -> None:
    """Let each read and write take at most that long. A Connection does them itself: only the kernel's limits apply."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _connect(address: Address, secret: bytes, timeout: float | None) -> Peer:
    sessions = None if isinstance(address, str) else tls_sessions(secret, server=False)
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connecting:
        connecting.settimeout(timeout)
        connecting.connect(address)
        connecting.setblocking(True)
        _send_at_once(connecting)
        if timeout is not None:
            _limit(connecting, timeout)
        connection = _peer(connecting.detach(), sessions)
    try:
        connection.shake_hands()
        answer_challenge(connection, secret)
        deliver_challenge(connection, secret)
    except BaseException:
        connection.close()
        raise
    return connection


def _send_at_once(connected: socket.socket) -> None:
    """Disable Nagle's algorithm, which delays the first request by 40 ms."""
    if connected.family != socket.AF_UNIX:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def hang_up(connection: Peer) -> None:
    """Cut a connection from another thread: a blocking read ends with EOFError.

    Closing it would not wake the reader, and would free its descriptor for reuse under the reader's feet. A connection that
    its own thread is about to close has its descriptor still when that is another connection's already.
    """
    with connection.closing, contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def listening_socket(host: str, ports: range) -> socket.socket:
    """Return a socket that listens on the first free port.

    Raises:
        ControlError: None is.
    """
    for port in ports:
        try:
            return socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    message = f"None of the ports from {ports[0]} to {ports[-1]} is free on {host}."
    raise ControlError(message, where="pystate.slot.ports", hint="give more ports, two for each slot and as many to restart")


class AuthenticatedListener:
    """Accepts connections whose peers prove a secret, each served on its own thread.

    The challenge runs on that thread too, so that a silent peer doesn't block others. A `ConnectionLimiter` bounds the
    number and the duration of such threads; an authenticated connection has no deadline.

    Args:
        secret: The secret that peers must prove.
        serve: Called with each authenticated connection; the connection is closed when it returns.
        host: The address to bind to, loopback by default; ignored with `path`.
        ports: The candidate ports, of which the first free one is used; ignored with `path`.
        path: Bind to a Unix socket at this path instead, unless the path is too long.
        name: A prefix for the threads' names.

    Raises:
        ControlError: None of the ports is free.
    """

    def __init__(
        self,
        secret: bytes,
        serve: Callable[[Peer], None],
        *,
        host: str = "127.0.0.1",
        ports: range = ANY_PORT,
        path: str | None = None,
        name: str,
    ) -> None:
        self._secret = secret
        self._serve = serve
        self._name = name
        self._closed = threading.Event()
        self._unproven: ConnectionLimiter[Peer] = ConnectionLimiter(
            lambda connection: cut_descriptor(connection.fileno()),
            most=places(_MOST_UNPROVEN),
            most_of_peer=places(_MOST_UNPROVEN_OF_PEER),
        )
        self._exhausted = False
        self._said_at = -_SAID_EVERY_SECONDS
        if path is None or len(os.fsencode(path)) > _LONGEST_PATH:
            self._socket = listening_socket(host, ports)
            self.address: Address = (host, int(self._socket.getsockname()[1]))
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(path)
            self._socket.listen(_BACKLOG)
            self.address = path
        # made now: later there may be no room for the certificate's file
        self._sessions = None if isinstance(self.address, str) else tls_sessions(secret, server=True)
        # a connection that is gone when we come to it must not hold us up
        self._socket.setblocking(False)
        self._thread = threading.Thread(target=self._accept_loop, name=f"{name}-accept", daemon=True)

    def start(self) -> None:
        """Start accepting connections."""
        self._thread.start()

    def close(self) -> None:
        """Stop accepting; open connections end with the process."""
        self._closed.set()
        with contextlib.suppress(OSError):
            # shutdown() wakes a blocked accept(), close() alone does not
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _accept_loop(self) -> None:
        arrivals = select.poll()
        arrivals.register(self._socket, select.POLLIN)
        while not self._closed.is_set():
            self._unproven.cut_expired()
            if not arrivals.poll(1000) or self._closed.is_set():
                continue
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:
                if not self._closed.is_set():
                    self._back_off(error)
                continue
            if self._exhausted:
                self._exhausted = False
                logger.info("%s: connections are accepted again", self._name)
            self._receive(accepted, peer_name(address))

    def _receive(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(True)
        _send_at_once(accepted)
        connection = _peer(accepted.detach(), self._sessions)
        cut = self._unproven.cut_count
        self._unproven.add(connection, peer)
        if self._unproven.cut_count > cut and time.monotonic() - self._said_at > _SAID_EVERY_SECONDS:
            self._said_at = time.monotonic()
            logger.warning("%s: too many connections prove nothing; %d are cut so far", self._name, self._unproven.cut_count)
        try:
            threading.Thread(target=self._admit, args=(connection,), name=self._name, daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._unproven.remove(connection)
            connection.close()
            self._back_off(error)

    def _back_off(self, error: Exception) -> None:
        """Wait a moment and cut the oldest unauthenticated connection. Logged once."""
        if not self._exhausted:
            self._exhausted = True
            logger.warning("%s: connections can't be accepted, and wait: %s", self._name, error)
        if getattr(error, "errno", None) in OUT_OF_DESCRIPTORS:
            self._unproven.cut_oldest()
        self._closed.wait(_BACK_OFF_SECONDS)

    def _admit(self, connection: Peer) -> None:
        with connection:
            try:
                connection.shake_hands()
                deliver_challenge(connection, self._secret)
                answer_challenge(connection, self._secret)
            except (AuthenticationError, EOFError, OSError, AssertionError, ValueError):
                self._unproven.remove(connection)
                return
            except BaseException:
                self._unproven.remove(connection)
                raise
            if self._unproven.remove(connection):
                self._serve(connection)


Handler = Callable[[dict[str, Any]], Any]


class ControlSession:
    """One caller's connection to a `ControlServer`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request; the result must be msgpack-able."""
        return self._handler(request)

    def takes_over(self, connection: Peer) -> bool:
        """Take over a connection: read all its data here, or elsewhere with `loop_socket`. Return False for a normal one."""
        return False

    def closed(self) -> None:
        """Handle the end of the caller's connection, here."""

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request, whatever goes wrong."""
        try:
            return {"ok": True, "value": self.handle(request)}
        except PystateError as error:
            return {"ok": False, "error": error.to_dict()}
        except Exception as error:  # the caller must get an answer whatever went wrong
            return {"ok": False, "error": {"class": type(error).__name__, "message": text_of(error)}}
        except BaseException as error:  # the same: a module of the user's may call sys.exit() when it is imported
            message = f"{type(error).__name__}: {text_of(error)}"
            return {"ok": False, "error": {"class": type(error).__name__, "message": message}}

    def answer_frame(self, payload: bytes) -> bytes:
        """Return the answer to a request as the frame that `ControlClient` expects.

        Raises:
            ValueError, TypeError: It is no message.
        """
        return framed(_packed(self.reply(_unpacked(payload))))


class ControlServer:
    """Answers requests `{"op": name, ...}` with `{"ok": true, "value": ...}` or `{"ok": false, "error": {...}}`.

    Args:
        secret: What a caller must prove.
        handler: Called with the request, on a thread of its own per connection; its result must be msgpack-able.
        host: The address to bind to.
        ports: The first of these that is free is taken.
        session: Makes what serves one connection; default: a session that calls `handler`.
    """

    def __init__(
        self,
        secret: bytes,
        handler: Handler,
        host: str = "127.0.0.1",
        *,
        ports: range = ANY_PORT,
        session: Callable[[], ControlSession] | None = None,
    ) -> None:
        self._session = session or (lambda: ControlSession(handler))
        self._listener = AuthenticatedListener(secret, self._serve, host=host, ports=ports, name="control")
        address = self._listener.address
        self.host, self.port = str(address[0]), int(address[1])

    def start(self) -> None:
        """Start serving."""
        self._listener.start()

    def close(self) -> None:
        """Stop serving; open connections end with the process."""
        self._listener.close()

    def _serve(self, connection: Peer) -> None:
        session = self._session()
        try:
            while True:
                send_message(connection, session.reply(receive_message(connection)))
                if session.takes_over(connection):
                    return
        except (EOFError, OSError):
            return
        except (ValueError, TypeError) as error:  # for instance, a list isn't a valid map key
            logger.warning("control: a caller that knows the secret has sent no message: %s", error)
        finally:
            session.closed()


class ControlClient:
    """One caller of a `ControlServer`; safe to share between threads (calls take turns)."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self._lock = threading.Lock()
        self._connection = connect((host, port), secret)

    def call(self, op: str, **arguments: Any) -> Any:
        """Send one request and return its value.

        Raises:
            ConnectionLostError: The peer went away.
            PystateError: What the peer answered.
        """
        self._lock.acquire()  # let go by _answer
        self._send(op, arguments)
        return self._answer(op)

    def begin(self, op: str, **arguments: Any) -> Callable[[], Any] | None:
        """Send one request, and return what waits for its answer; that must be called once, in any thread.

        It doesn't wait for long when the descriptor is readable.

        Returns:
            None if nothing was sent: another thread's call is under way, or the connection is encrypted, so that a readable
            descriptor need not mean an answer.

        Raises:
            ConnectionLostError: The peer went away.
        """
        if self._connection.session is not None or not self._lock.acquire(blocking=False):
            return None
        self._send(op, arguments)
        return lambda: self._answer(op)

    def _send(self, op: str, arguments: dict[str, Any]) -> None:
        try:
            send_message(self._connection, {"op": op, **arguments})
        except BaseException as error:
            self._lock.release()
            if isinstance(error, (EOFError, OSError)):
                raise _lost(op, error) from error
            raise

    def _answer(self, op: str) -> Any:
        try:
            reply = receive_message(self._connection)
        except (EOFError, OSError) as error:
            raise _lost(op, error) from error
        finally:
            self._lock.release()
        if reply["ok"]:
            return reply["value"]
        raise error_from_dict(reply["error"])

    def fileno(self) -> int:
        """Return the connection's descriptor, for direct writes."""
        return self._connection.fileno()

    def hang_up(self) -> None:
        """Cut the connection, from another thread: a call that waits for its answer ends with ConnectionLostError."""
        hang_up(self._connection)

    def close(self) -> None:
        """Close the connection; a call that waits for its answer ends with ConnectionLostError."""
        self.hang_up()
        with self._lock, contextlib.suppress(OSError):  # no thread reads from its descriptor any more
            self._connection.close()


def _lost(op: str, error: BaseException) -> ConnectionLostError:
    return ConnectionLostError(f"The connection was lost during {op!r}: {error!r}")
