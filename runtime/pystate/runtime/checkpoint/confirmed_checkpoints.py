"""Which completed checkpoints slots know of: by that, which files a checkpoint under way may name.

A slot refers in a snapshot to files of the last checkpoint that it knows to be complete. Notifications come late, and are
not repeated when a call fails. So the coordinator doesn't rely on them: each barrier tells the slots which checkpoints have
completed since the last one that all of them have followed, and the coordinator notes with it how far back the snapshot's
files may go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Confirmed:
    """What one barrier tells.

    Attributes:
        base: The last completed checkpoint: no snapshot at the barrier names files that only older ones hold. 0 where the
            attempt has completed none, and slots continue with what they were restored from.
        completed: Those that a slot may not have heard of, oldest first.
    """

    base: int
    completed: tuple[int, ...]


class ConfirmedCheckpoints:
    """The completed checkpoints of an attempt. Free of threads: the coordinator holds its lock around every call."""

    def __init__(self) -> None:
        self._base = 0
        self._completed: tuple[int, ...] = ()

    def restart(self) -> None:
        """Begin an attempt: its slots know of nothing but what they were restored from."""
        self._base, self._completed = 0, ()

    def barrier(self) -> Confirmed:
        """Return what a barrier that is placed now tells; to be called once for a barrier."""
        return Confirmed(self._base, self._completed)

    def add(self, checkpoint_id: int, told: Confirmed | None) -> None:
        """Take in a checkpoint that is complete; savepoints don't count, since nothing ever refers to their files.

        Args:
            checkpoint_id: Its number.
            told: What its barrier told: all slots have followed it.
        """
        heard = () if told is None else told.completed
        self._completed = (*(one for one in self._completed if one not in heard), checkpoint_id)
        self._base = checkpoint_id
