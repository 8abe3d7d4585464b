"""Sources in slots that read what a source of Spark's reads in the other engine, and go on where that one was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class GoesOnBehindSpark(ABC):
    """A `Source` that can begin where one of Spark's has ended, without state of its own."""

    @abstractmethod
    def go_on_behind(self, offset: str, log: Mapping[str, bytes]) -> None:
        """Begin, where there is no state, behind what Spark has read. It is called in front of each start.

        Args:
            offset: How far that is, as Spark's offset log has it.
            log: The files of Spark's log of this source up to there, by their names.

        Raises:
            RestoreError: This source can't go on there.
        """

    @abstractmethod
    def begin_anew(self) -> None:
        """Begin with the first element, where there is no state."""
