"""Limits for unauthenticated connections: a total number, a number per peer, and a timeout.

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
    """Keeps the connections of one stage within limits. Thread-safe.

    Args:
        cut: Ends a connection at once; called before it is removed, so it isn't closed yet.
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
        """Add a connection; at a limit, cut the oldest: of this peer, or of the peer with the most connections."""
        with self._changed:
            while self._by_peer[peer] >= self._most_of_peer:
                self._evict(peer)
            while len(self._connections) >= self._most:
                self._evict(max(self._by_peer, key=lambda one: self._by_peer[one]))
            self._connections[connection] = (peer, self._clock())
            self._by_peer[peer] += 1

    def remove(self, connection: T) -> bool:
        """Remove a connection that has authenticated or is about to be closed; return False if it was cut."""
        with self._changed:
            return self._remove(connection)

    def cut_expired(self) -> float | None:
        """Cut timed-out connections; return the seconds until the next timeout, None if there is none."""
        with self._changed:
            now = self._clock()
            for connection, (_, since) in list(self._connections.items()):
                if since + self._seconds > now:
                    return since + self._seconds - now
                self._cut_one(connection)
            return None

    def cut_oldest(self) -> bool:
        """Cut the oldest connection, for instance if no more files can be opened; return False if there is none."""
        with self._changed:
            oldest = next(iter(self._connections), None)
            if oldest is not None:
                self._cut_one(oldest)
            return oldest is not None

    def _evict(self, peer: str) -> None:
        connection, since = next((one, since) for one, (of, since) in self._connections.items() if of == peer)
        young = since + self._grace - self._clock()
        if young > 0:
            self._changed.wait(young)  # on the next look it is older, or gone
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
    """Return the limit of connections: `most`, but at most a quarter of the descriptors allowed for this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(4, min(most, soft // 4))


def peer_name(address: Any) -> str:
    """Return the identity of a peer: its host; all loopback addresses are the same peer."""
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
            # an owner of one address of a network has all of them
            return str(ipaddress.ip_network((host, 64), strict=False))
    return "local" if host.is_loopback else str(host)


def cut_descriptor(descriptor: int) -> None:
    """Shut down a socket without closing it and without another descriptor, since none may be free."""
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
