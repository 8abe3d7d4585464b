"""The checkpoints under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pystate.checkpoint.pending_checkpoint import PendingCheckpoint


class PendingCheckpoints:
    """The checkpoints under way, by number. Free of threads: the coordinator holds its lock around every call."""

    def __init__(self) -> None:
        self._running: dict[int, PendingCheckpoint] = {}

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterate over them, oldest first."""
        return iter(list(self._running.values()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._running)

    def get(self, checkpoint_id: int) -> PendingCheckpoint | None:
        """Return the one of that number."""
        return self._running.get(checkpoint_id)

    def add(self, checkpoint: PendingCheckpoint) -> None:
        """Take in a checkpoint that is being triggered."""
        self._running[checkpoint.checkpoint_id] = checkpoint

    def remove(self, checkpoint: PendingCheckpoint) -> None:
        """Let one go that has ended."""
        self._running.pop(checkpoint.checkpoint_id, None)

    def of_epoch(self, epoch: int) -> list[PendingCheckpoint]:
        """Return those whose cut stands behind that epoch."""
        return [one for one in self if one.epoch == epoch]

    def older_than(self, checkpoint_id: int) -> list[PendingCheckpoint]:
        """Return the checkpoints that are of no use once that one is complete; savepoints always are."""
        return [one for one in self if one.checkpoint_id < checkpoint_id and not one.is_savepoint]

    def lowest_base(self, besides: Iterable[PendingCheckpoint]) -> int | None:
        """Return the oldest checkpoint whose files one under way may name; None for none.

        Args:
            besides: Those that don't count.
        """
        gone = {id(one) for one in besides}
        bases = (one.confirmed.base for one in self if one.confirmed is not None and id(one) not in gone)
        return min(bases, default=None)

    @property
    def hold_epochs(self) -> bool:
        """Whether there is a savepoint behind which no epoch may begin."""
        return any(one.request.hold for one in self)

    @property
    def for_recovery(self) -> bool:
        """Whether there is one that is no savepoint."""
        return any(not one.is_savepoint for one in self)

    @property
    def finalizing(self) -> bool:
        """Whether there is one whose metadata is being written."""
        return any(one.finalizing for one in self)

    def savepoint(self) -> PendingCheckpoint | None:
        """Return the oldest savepoint."""
        return next((one for one in self if one.is_savepoint), None)
