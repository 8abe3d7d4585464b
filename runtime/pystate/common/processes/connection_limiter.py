"""Limits of unauthenticated connections: a number in all, a number per peer, and a timeout of each.

A peer that connects and sends nothing costs a descriptor, and mostly a thread. At a limit the oldest connection is closed
for the next one, so that silent peers can't keep out those that authenticate at once.
"""

from __future__ import annotations

import ipaddress
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

HANDSHAKE_SECONDS = 10.0
"""How long a connection may take to authenticate."""
GRACE_SECONDS = 0.1
"""How long each stays at least, at whatever limit; the next one is accepted later."""


class ConnectionLimiter(Generic[T]):
    """Keeps the connections of one stage within limits. Safe to use from many threads.

    Args:
        cut: Ends a connection at once; called before it is removed, so that nobody has closed it yet.
        most: How many there may be.
        most_of_peer: How many of one peer.
        seconds: How long each may stay.
        grace: How long each may stay at least.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        cut: Callable[[T], None],
        *,
        most: int,
        most_of_peer: int,
        seconds: float = HANDSHAKE_SECONDS,
        grace: float = GRACE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cut = cut
        self._most = most
        self._most_of_peer = most_of_peer
        self._seconds = seconds
        self._grace = grace
        self._clock = clock
        self._changed = threading.Condition()
        self._connections: dict[T, tuple[str, float]] = {}  # the oldest first
        self._by_peer: Counter[str] = Counter()
        self.cut_count = 0

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: T, peer: str) -> None:
        """Add one; at a limit the oldest is cut: of this peer, or of the one that has the most."""
        with self._changed:
            while self._by_peer[peer] >= self._most_of_peer:
                self._evict(peer)
            while len(self._connections) >= self._most:
                self._evict(max(self._by_peer, key=lambda one: self._by_peer[one]))
            self._connections[connection] = (peer, self._clock())
            self._by_peer[peer] += 1

    def remove(self, connection: T) -> bool:
        """Remove one that has authenticated, or is about to be closed; return False if it has been cut."""
        with self._changed:
            return self._remove(connection)

    def cut_expired(self) -> float | None:
        """Cut those beyond their timeout; return the seconds until the next one is, None if there is none."""
        with self._changed:
            now = self._clock()
            for connection, (_, since) in list(self._connections.items()):
                if since + self._seconds > now:
                    return since + self._seconds - now
                self._cut_one(connection)
            return None

    def cut_oldest(self) -> bool:
        """Cut the oldest, as when no more files can be opened; return False if there is none."""
        with self._changed:
            oldest = next(iter(self._connections), None)
            if oldest is not None:
                self._cut_one(oldest)
            return oldest is not None

    def _evict(self, peer: str) -> None:
        connection, since = next((one, since) for one, (of, since) in self._connections.items() if of == peer)
        young = since + self._grace - self._clock()
        if young > 0:
            self._changed.wait(young)  # whoever looks again finds it older, or gone
        else:
            self._cut_one(connection)

    def _cut_one(self, connection: T) -> None:
        self._remove(connection)
        self.cut_count += 1
        self._cut(connection)

    def _remove(self, connection: T) -> bool:
        peer, _ = self._connections.pop(connection, (None, 0.0))
        if peer is None:
            return False
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        self._changed.notify_all()
        return True


def places(most: int) -> int:
    """Return a limit of connections: `most`, and no more than a quarter of the descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(4, min(most, soft // 4))


def peer_name(address: Any) -> str:
    """Return what tells peers from each other: the host; this machine is one, whatever loopback address it takes."""
    if not isinstance(address, tuple) or not address:
        return "local"
    try:
        host = ipaddress.ip_address(str(address[0]).split("%")[0])
    except ValueError:
        return str(address[0])
    if isinstance(host, ipaddress.IPv6Address):
        if host.ipv4_mapped is not None:
            return peer_name((str(host.ipv4_mapped),))
        if not host.is_loopback:
            # who has one address of a network has all of them
            return str(ipaddress.ip_network((host, 64), strict=False))
    return "local" if host.is_loopback else str(host)


def cut_descriptor(descriptor: int) -> None:
    """End a socket without closing it, and without a further descriptor: there may be none."""
    try:
        twin = socket.socket(fileno=descriptor)
    except OSError:
        return
    try:
        twin.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side has gone already
    finally:
        twin.detach()
