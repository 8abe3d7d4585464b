"""Classification of network addresses."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(entry[4][0]).split("%")[0]).is_loopback for entry in found)
