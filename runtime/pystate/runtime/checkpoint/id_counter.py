"""The counter of checkpoint ids, shared by checkpoints and savepoints; no id is used twice."""

from __future__ import annotations


class CheckpointIdCounter:
    """Generates checkpoint ids.

    Args:
        first: The first id; 1 for a job that starts without a snapshot.
    """

    def __init__(self, first: int = 1) -> None:
        self._next = first

    @property
    def next_id(self) -> int:
        """The next id, above all that have been used."""
        return self._next

    def continue_above(self, restored_id: int) -> None:
        """Continue above the id of a restored snapshot; used ids are never repeated."""
        self._next = max(self._next, restored_id + 1)

    def get_and_increment(self) -> int:
        """Return the next id."""
        given = self._next
        self._next += 1
        return given
