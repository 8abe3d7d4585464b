"""Buffers of operators in front of a state and its timers, with their own data structures.

If most additions of an epoch are removed before its end, or soon after, overlays and stores are a detour. An `EpochBuffer`
follows the epochs of its state: the overlay of that state reports how they end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class EpochBuffer(ABC):
    """Buffers a part of the running epoch, and of previous ones within the backend's `kept_bytes`."""

    @abstractmethod
    def settle(self, *, whole: bool = False) -> None:
        """Pass the changes of the running epoch that aren't kept to the overlays, which are flushed next.

        Called for each overlay, so more than once.

        Args:
            whole: Nothing is to be kept, since the running epoch is moved to disk; nor is anything from before it.
        """

    @abstractmethod
    def commit(self) -> None:
        """Commit the running epoch."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the uncommitted part of the running epoch."""

    @abstractmethod
    def write_back(self) -> None:
        """Write what is kept of finished epochs to the stores, possibly during an epoch.

        A backend calls it before any access to its stores, and before the running epoch is moved to disk.
        """

    @abstractmethod
    def held_bytes(self) -> int:
        """Return the approximate memory of the running epoch."""
