"""Views of flushed state at one moment, from which readers on other threads read queryable state.

Unlike a snapshot, which is read once completely, a view is read by single keys many times, and few views exist at a time.
See docs/design/014-queryable-state.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass

ENTRY_BYTES = 16
"""The maximum overhead of an entry or element in a message."""


@dataclass(frozen=True)
class PageBound:
    """The bound of one page of a map or a list.

    Attributes:
        limit: The maximum number of entries or elements.
        room: The maximum size in bytes, including `ENTRY_BYTES` each.
    """

    limit: int
    room: int


class StateView(ABC):
    """One state in a view. Addresses are those of `addresses`; values, elements and map values are bytes as in snapshots.

    Methods that don't apply to the state's kind must not be called.
    """

    @abstractmethod
    def value(self, address: Hashable, key_group: int) -> bytes | None:
        """Return the value or accumulator of an address; None if there is none."""

    @abstractmethod
    def elements(self, address: Hashable, key_group: int) -> list[bytes]:
        """Return the elements of a list; none if there is no list."""

    @abstractmethod
    def entries(
        self, address: Hashable, key_group: int, prefix: bytes, after: bytes | None, bound: PageBound
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return (bytes of the map key, bytes of the value) of a map's entries, in an order of the view.

        Args:
            address: The address of the map.
            key_group: The key group of the key.
            prefix: The prefix of the bytes of the keys to return.
            after: The end returned by an earlier call; None for the beginning.
            bound: The bound. The first entry is returned regardless of its size.

        Returns:
            The entries, and their end; None for the latter if there are no more.
        """


class CommittedView(ABC):
    """Some states of a backend at the creation of the view, which is created and closed by the backend's owner."""

    @abstractmethod
    def state(self, name: str) -> StateView | None:
        """Return a state, from any thread until the view is closed; None if it was not declared at that time."""

    @abstractmethod
    def close(self) -> None:
        """Free the view. It must not be read any more."""
