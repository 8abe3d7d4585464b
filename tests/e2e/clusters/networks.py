"""Networks for tests: hosts that are network namespaces, each with an address of its own, on a common bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.clusters.spark_cluster import Host

_NETWORK = "10.201.0"
_OTHER_ADDRESS = "10.202.0.1"


class NetworksUnavailableError(Exception):
    """This machine, or this user, can't make network namespaces."""


@contextmanager
def hosts_or_skip(count: int) -> Iterator[list[Host]]:
    """Give hosts with networks of their own; skip the test where they can't be made."""
    try:
        with Namespaces(count) as made:
            yield made.hosts
    except NetworksUnavailableError as why:
        pytest.skip(f"network namespaces can't be made here: {why}")


class Namespaces:
    """The first host has the bridge, and a second network that no other host is in.

    Args:
        count: How many hosts.
    """

    def __init__(self, count: int) -> None:
        self._names = [f"pystate{os.getpid()}-{number}" for number in range(count)]
        self.hosts: list[Host] = []

    def __enter__(self) -> Namespaces:
        if shutil.which("ip") is None:
            message = "the command ip (iproute2) is missing"
            raise NetworksUnavailableError(message)
        try:
            self._make()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            why = error.stderr.decode().strip() or f"ip ended with exit code {error.returncode}"
            message = f"{why} (root, or the right to administer networks, is needed)"
            raise NetworksUnavailableError(message) from error
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def _make(self) -> None:
        for name in self._names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        bridge = self._names[0]
        _ip("-n", bridge, "link", "add", "bridge0", "type", "bridge")
        self._address(bridge, "bridge0", f"{_NETWORK}.1")
        for number, name in enumerate(self._names[1:], 1):
            _ip("link", "add", f"port{number}", "netns", bridge, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", bridge, "link", "set", f"port{number}", "master", "bridge0", "up")
            self._address(name, "eth0", f"{_NETWORK}.{10 + number}")
        _ip("-n", bridge, "link", "add", "other0", "type", "bridge")
        self._address(bridge, "other0", _OTHER_ADDRESS)
        addresses = [f"{_NETWORK}.1", *(f"{_NETWORK}.{10 + number}" for number in range(1, len(self._names)))]
        self.hosts = [
            Host(address, ("ip", "netns", "exec", name)) for address, name in zip(addresses, self._names, strict=True)
        ]

    def _address(self, name: str, device: str, address: str) -> None:
        _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
        _ip("-n", name, "link", "set", device, "up")


def switch_link(hosts: list[Host], number: int, *, up: bool) -> None:
    """Cut a host off from all others, without a word on any connection, or let it be reached again."""
    command = [*hosts[0].prefix, "ip", "link", "set", f"port{number}", "up" if up else "down"]
    subprocess.run(command, capture_output=True, check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)
