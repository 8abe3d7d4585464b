"""Tracks which completed checkpoints slots know of, and so which files a pending checkpoint may refer to.

In a snapshot, a slot refers to files of the last checkpoint that it knows to be complete. Notifications come late, and are
not repeated when a call fails. So the coordinator doesn't rely on them: each barrier carries the checkpoints that have
completed since the last one that all slots have acknowledged, and the coordinator records how old the files of the snapshot
may be.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Confirmed:
    """The completed checkpoints that a barrier carries.

    Attributes:
        base: The last completed checkpoint: no snapshot at the barrier refers to files that only older ones hold. 0 if the
            attempt has completed none, and slots continue with what they were restored from.
        completed: Those that a slot may not know of yet, oldest first.
    """

    base: int
    completed: tuple[int, ...]


class ConfirmedCheckpoints:
    """The completed checkpoints of an attempt. Not thread-safe: the coordinator holds its lock around every call."""

    def __init__(self) -> None:
        self._base = 0
        self._completed: tuple[int, ...] = ()

    def restart(self) -> None:
        """Begin an attempt: its slots only know of what they were restored from."""
        self._base, self._completed = 0, ()

    def barrier(self) -> Confirmed:
        """Return what a barrier that is placed now carries; to be called once per barrier."""
        return Confirmed(self._base, self._completed)

    def add(self, checkpoint_id: int, told: Confirmed | None) -> None:
        """Add a completed checkpoint; savepoints don't count, since nothing ever refers to their files.

        Args:
            checkpoint_id: Its number.
            told: What its barrier told: all slots have followed it.
        """
        heard = () if told is None else told.completed
        self._completed = (*(one for one in self._completed if one not in heard), checkpoint_id)
        self._base = checkpoint_id
