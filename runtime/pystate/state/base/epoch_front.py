"""What an operator keeps of the running epoch in an order of its own, in front of the overlays of its states and timers.

Where most of what an epoch adds is gone before the epoch ends, the overlays are a way round. An `EpochFront` hands on what
is left when an overlay is asked for its changes, and goes with the epoch: whoever flushes, spills or rolls back overlays
knows nothing of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class EpochFront(ABC):
    """A part of the running epoch. It is told by each overlay that it stands in front of, so more than once."""

    @abstractmethod
    def settle(self) -> None:
        """Hand all on to the overlays, whose changes are taken next, and hold nothing any more."""

    @abstractmethod
    def drop(self) -> None:
        """Forget all: the epoch is rolled back, or what was handed on is stored."""

    @abstractmethod
    def held_bytes(self) -> int:
        """Return about how much memory is taken."""
