"""The common interface of custom sources for the operator that runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from pystate.connectors.source import ReaderOutput
from pystate.core.api.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from pystate.core.api.functions import RuntimeContext

Plain = list[Any]
"""A message between a reader and its enumerator: a word, and what it is about."""

Coordinate = Callable[[int, list[Plain]], list[Plain] | None]
"""Sends messages of a reader to its enumerator, under a number that rises, and returns what there is for the reader.

None where the enumerator takes none now: a barrier is between the two.
"""


class EpochLimit(Protocol):
    """The limit of elements for an epoch."""

    @property
    def lingers(self) -> bool:
        """Whether to wait briefly for more elements."""

    def rows_left(self) -> int:
        """Return how many more elements the epoch may take; 0 ends it."""


class SourceFeed(ABC):
    """One subtask of a custom source.

    Attributes:
        ended: Whether all elements were taken and none follow.
    """

    ended = False

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the position of an earlier attempt."""

    @abstractmethod
    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the source."""

    @abstractmethod
    def take(self, output: ReaderOutput[Any], limit: EpochLimit, *, wait: bool) -> None:
        """Emit the available elements, up to a limit.

        Args:
            output: Receives the elements.
            limit: The limit.
            wait: Whether to wait until the source ends.

        Raises:
            Exception: The error raised by the user's code.
        """

    def describe_position(self) -> str | None:
        """Describe the origin of the element that `take` was emitting when it raised; None if unknown."""
        return None

    @abstractmethod
    def next_due(self, now: int) -> int | None:
        """Return when to poll in the next epoch, ms since 1970; None if the source notifies, or never."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Save the position after the taken elements to the state."""

    @abstractmethod
    def close(self) -> None:
        """Close the source."""
