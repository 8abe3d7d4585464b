"""Authenticates connections to PySpark's listeners in the driver by the peer's user id.

Two of them may listen on loopback ports without authentication: py4j's callback server, by which the JVM calls
`foreachBatch`, and the server that receives accumulators from the JVM, one connection at a time. Another user of the machine
could call an epoch's body, or occupy the accumulator server, for which every Spark job waits. No Spark setting closes them,
and py4j's token for callbacks is lost when PySpark renames the port (pyspark 4.3). The kernel knows the owner of the peer's
socket: connections of other users are closed before a byte is read.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j import java_gateway
from pyspark import accumulators

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"
"""The kernel's notation of the first twelve bytes of an IPv4-mapped IPv6 address."""


def is_own(connection: socket.socket) -> bool:
    """Whether the peer of a local connection is a socket of this process's user, or unknown.

    It is unknown if the kernel shows no sockets (`/proc/net/tcp` is Linux's), not even this process's own end. A peer that
    was closed meanwhile has no owner.
    """
    if connection.family == socket.AF_UNIX and hasattr(socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("=iii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return bool(uid == os.getuid())
    if connection.family != socket.AF_INET:
        return True
    try:
        return is_own_address(connection.getsockname(), connection.getpeername())
    except OSError:
        return False


def is_own_address(here: tuple[str, int], there: tuple[str, int]) -> bool:
    """Whether the far end of an established loopback connection belongs to this process's user, or is unknown.

    Args:
        here: The near end, of this or of another process.
        there: The far end.
    """
    near, far = _written(here), _written(there)
    owners = {(local, remote): uid for local, remote, uid in _established()}
    if (near, far) not in owners and (_MAPPED + near, _MAPPED + far) not in owners:
        return not owners
    for prefix in ("", _MAPPED):
        uid = owners.get((prefix + far, prefix + near))
        if uid is not None:
            return uid == os.getuid()
    return False


def guard_listeners() -> None:
    """Let PySpark's listeners in this process serve this user only, including existing ones. Idempotent."""
    if _guarded():
        return
    create = java_gateway.CallbackServer._create_connection  # noqa: SLF001 - the only hook after accept()

    def create_own(server: Any, connection: socket.socket, stream: Any) -> Any:
        made = create(server, connection, stream)
        if not is_own(connection):
            made.__class__ = _Refused
        return made

    def verify_request(_: Any, request: socket.socket, __: Any) -> bool:
        return is_own(request) or _say_refused()

    create_own.guards = True  # type: ignore[attr-defined]
    java_gateway.CallbackServer._create_connection = create_own  # noqa: SLF001
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.verify_request = verify_request  # type: ignore[assignment, method-assign]


class _Refused(java_gateway.CallbackConnection):  # type: ignore[misc]
    """A connection that is closed instead of served."""

    def start(self) -> None:
        """Close the connection, instead of starting a thread that serves it."""
        _say_refused()
        for hang_up in (lambda: self.socket.shutdown(socket.SHUT_RDWR), self.input.close, self.socket.close):
            with contextlib.suppress(OSError):
                hang_up()


def _guarded() -> bool:
    return hasattr(java_gateway.CallbackServer._create_connection, "guards")  # noqa: SLF001


_said = False


def _say_refused() -> bool:
    global _said
    if not _said:
        _said = True
        sys.stderr.write("WARNING: another user of this machine connects to ports of this job; he is refused.\n")
    return False


def _written(address: Any) -> str:
    """Return an address and port in the notation of the kernel's table."""
    host, port = address[:2]
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def _established() -> Iterator[tuple[str, str, int]]:
    """Yield local and remote address and owner of each established connection that the kernel shows."""
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _ESTABLISHED:
                yield fields[1], fields[2], int(fields[7])
