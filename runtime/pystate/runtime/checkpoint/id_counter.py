"""Ids of checkpoints and savepoints: one row of numbers for both, never used twice."""

from __future__ import annotations


class CheckpointIdCounter:
    """Gives ids.

    Args:
        first: The first id; 1 for a job that starts from nothing.
    """

    def __init__(self, first: int = 1) -> None:
        self._next = first

    @property
    def next_id(self) -> int:
        """Above all ids that have been given."""
        return self._next

    def continue_above(self, restored_id: int) -> None:
        """Give only ids above that of a restored snapshot; ids given already are never given again."""
        self._next = max(self._next, restored_id + 1)

    def get_and_increment(self) -> int:
        """Return the next id."""
        given = self._next
        self._next += 1
        return given
