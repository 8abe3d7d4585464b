"""What an own source is to the operator that runs it, whichever kind it is."""

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
    """Says when an epoch has taken enough."""

    @property
    def lingers(self) -> bool:
        """Whether it waits a moment for more."""

    def rows_left(self) -> int:
        """Return how many elements the epoch may take yet; 0 ends it."""


class SourceFeed(ABC):
    """One subtask of an own source.

    Attributes:
        ended: No element follows, and all were taken.
    """

    ended = False

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take over where an earlier attempt was."""

    @abstractmethod
    def open(self, runtime_context: RuntimeContext) -> None:
        """Make ready."""

    @abstractmethod
    def take(self, output: ReaderOutput[Any], limit: EpochLimit, *, wait: bool) -> None:
        """Hand on what there is, up to a limit.

        Args:
            output: Takes it.
            limit: As said.
            wait: Whether to wait for all that will ever come.

        Raises:
            Exception: What the user's code raised.
        """

    def describe_position(self) -> str | None:
        """Say where the element comes from that `take` was handing on when it raised; None where that isn't known."""
        return None

    @abstractmethod
    def next_due(self, now: int) -> int | None:
        """Return when the next epoch is to ask, ms since 1970; None for when the source tells, or never."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the position behind all that was taken into the state."""

    @abstractmethod
    def close(self) -> None:
        """End."""
