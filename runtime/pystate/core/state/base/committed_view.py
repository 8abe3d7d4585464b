"""Flushed state as it was at one moment, for readers on other threads: what queryable state is read from.

Unlike a snapshot, which is read once from end to end, a view is asked for single keys, many times, and there are a few of
them at a time. See docs/design/014-queryable-state.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass

ENTRY_BYTES = 16
"""What an entry or element has beside its own bytes where it travels; at most."""


@dataclass(frozen=True)
class PageBound:
    """How much of a map or a list is read at a time.

    Attributes:
        limit: How many entries or elements.
        room: How many bytes they may have, each with `ENTRY_BYTES`.
    """

    limit: int
    room: int


class StateView(ABC):
    """One state in a view. Addresses are those of `addresses`; values, elements and map values are bytes as in snapshots.

    A method that doesn't fit the state's kind has no meaning.
    """

    @abstractmethod
    def value(self, address: Hashable, key_group: int) -> bytes | None:
        """Return the value or accumulator of an address; None if there is none."""

    @abstractmethod
    def elements(self, address: Hashable, key_group: int) -> list[bytes]:
        """Return the elements of a list; none where there is no list."""

    @abstractmethod
    def entries(
        self, address: Hashable, key_group: int, prefix: bytes, after: bytes | None, bound: PageBound
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return (bytes of the map key, bytes of the value) of a map's entries, in an order that is the view's own.

        Args:
            address: Whose map.
            key_group: Of the key.
            prefix: Only those whose key's bytes begin so.
            after: Where an earlier call has ended, as it said; None for the beginning.
            bound: How many at most. The first one comes, however large it is.

        Returns:
            The entries, and where they end; None for the latter where there are no more.
        """


class CommittedView(ABC):
    """Some states of a backend as they were when the view was made. It is made and closed by the owner of the backend."""

    @abstractmethod
    def state(self, name: str) -> StateView | None:
        """Return a state, from any thread until the view is closed; None for one that nobody had declared by then."""

    @abstractmethod
    def close(self) -> None:
        """Free what the view holds. Nobody may read it any more."""
