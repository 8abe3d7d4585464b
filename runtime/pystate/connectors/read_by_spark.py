"""Sources in slots that can resume where a Spark source of the micro-batch engine stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class GoesOnAfterSpark(ABC):
    """A `Source` that can start at a Spark offset when it has no state of its own."""

    @abstractmethod
    def go_on_after(self, offset: str, log: Mapping[str, bytes]) -> None:
        """Start after what Spark has read, if there is no state. Called before each start.

        Args:
            offset: The position in Spark's offset log.
            log: The files of Spark's log of this source up to there, by name.

        Raises:
            RestoreError: This source can't start there.
        """

    @abstractmethod
    def begin_anew(self) -> None:
        """Start with the first element, if there is no state."""
