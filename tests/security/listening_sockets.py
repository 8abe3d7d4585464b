"""Listening sockets of processes, from /proc, as any user finds them: ours, and all others of a job's processes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LISTENING = "0A"
_CHALLENGE = b"#CHALLENGE#"


@dataclass(frozen=True)
class ListeningSocket:
    """A socket that a process listens on.

    Attributes:
        name: Whose it is.
        address: Host and port, or the path of a Unix socket. The host is 0.0.0.0 where it listens on all addresses.
        pid: The process that listens.
    """

    name: str
    address: tuple[str, int] | str
    pid: int

    def open(self, timeout: float = 10.0) -> socket.socket:
        """Connect to it."""
        return opened(self.address, timeout)


def opened(address: tuple[str, int] | str, timeout: float = 10.0) -> socket.socket:
    """Connect to an address."""
    made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    try:
        made.settimeout(timeout)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made


def listening_sockets_of(name: str, pid: int) -> list[ListeningSocket]:
    """Return the sockets of a process that begin with a challenge: those are ours."""
    return [found for found in all_listening_sockets_of(name, pid) if _challenges(found.address)]


def all_listening_sockets_of(name: str, pid: int) -> list[ListeningSocket]:
    """Return all sockets that a process listens on, Spark's and PySpark's among them."""
    return [ListeningSocket(name, address, pid) for address in _listening(pid)]


def _listening(pid: int) -> Iterable[tuple[str, int] | str]:
    inodes = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):  # Java's are in the second one
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and fields[9] in inodes:
                host, port = fields[1].split(":")
                yield socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1]), int(port, 16)
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[6] in inodes and fields[3] == "00010000":
            yield fields[7]


def _challenges(address: tuple[str, int] | str) -> bool:
    with contextlib.suppress(OSError), opened(address, 2.0) as caller:
        return _CHALLENGE in caller.recv(64)
    return False
