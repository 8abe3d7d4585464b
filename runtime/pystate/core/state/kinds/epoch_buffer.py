"""What an operator keeps in an order of its own, in front of a state and its timers.

Where most of what an epoch adds is gone before the epoch ends, or soon after, overlays and stores are a way round. An
`EpochBuffer` goes with the epochs of the state before which it stands: the overlay of that state tells what becomes of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class EpochBuffer(ABC):
    """A part of the running epoch, and of those before it as far as a backend's `kept_bytes` lets it."""

    @abstractmethod
    def settle(self, *, whole: bool = False) -> None:
        """Hand on to the overlays what the running epoch has that isn't to be kept; their changes are taken next.

        Called for each overlay, so more than once.

        Args:
            whole: Nothing is to be kept, since the running epoch is moved to disk; nor is anything from before it.
        """

    @abstractmethod
    def commit(self) -> None:
        """Record that the running epoch lasts."""

    @abstractmethod
    def drop(self) -> None:
        """Forget the running epoch, as far as it wasn't committed."""

    @abstractmethod
    def write_back(self) -> None:
        """Write what is kept of finished epochs to the stores, while an epoch may be running.

        A backend calls it in front of whatever looks at its stores, and before the running epoch is moved to disk.
        """

    @abstractmethod
    def held_bytes(self) -> int:
        """Return about how much memory the running epoch takes."""
