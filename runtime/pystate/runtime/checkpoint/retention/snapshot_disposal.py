"""Deleting the files of checkpoints that nobody needs: subsumed ones, and what failed ones have left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping

from pystate.common.errors import PystateError
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint


def discard(location: SnapshotLocation) -> bool:
    """Delete a snapshot; where that fails, say so, leave it and return False."""
    try:
        location.discard()
    except PystateError as error:
        sys.stderr.write(f"WARNING: {error}\n")
        return False
    return True


class FailedRemains:
    """Deletes the directories of failed checkpoints, and tries again with the next ones where the storage failed.

    Writing `_metadata` may have failed behind its last byte: as long as the directory can't be deleted, a later driver may
    take the checkpoint for a complete one, whose files must then be there. Any thread may call it.
    """

    def __init__(self) -> None:
        self._left: dict[int, tuple[SnapshotLocation, int]] = {}
        self._held: set[int] = set()
        self._lock = threading.Lock()

    def add(self, checkpoint_id: int, location: SnapshotLocation, base: int, *, held: bool) -> None:
        """Take in a failed checkpoint that is to be deleted.

        Args:
            checkpoint_id: Which.
            location: Where it was written.
            base: The oldest checkpoint whose files it may name.
            held: Somebody still writes there: it isn't deleted before `release`.
        """
        with self._lock:
            self._left[checkpoint_id] = (location, base)
            if held:
                self._held.add(checkpoint_id)

    def release(self, checkpoint_id: int) -> None:
        """Record that nobody writes there any more."""
        with self._lock:
            self._held.discard(checkpoint_id)

    def discard(self, failed: Mapping[int, SnapshotLocation], base: int = 0) -> list[int]:
        """Delete what failed checkpoints have left; return the numbers of those that are gone, earlier ones among them.

        Args:
            failed: Where they were written, by number.
            base: The oldest checkpoint whose files they may name.
        """
        with self._lock:
            for checkpoint_id, location in failed.items():
                self._left.setdefault(checkpoint_id, (location, base))
            waiting = {number: left for number, left in self._left.items() if number not in self._held}
        gone = [checkpoint_id for checkpoint_id, (location, _) in waiting.items() if discard(location)]
        with self._lock:
            for checkpoint_id in gone:
                self._left.pop(checkpoint_id, None)
        return gone

    @property
    def lowest_base(self) -> int | None:
        """The oldest checkpoint whose files may be named by one that could not be deleted; None if there is none."""
        with self._lock:
            return min((base for _, base in self._left.values()), default=None)


class Discards:
    """Deletes completed checkpoints, and tries again with the next ones where the storage failed. Not locked.

    Attributes:
        left: Those that could not be deleted yet: what they refer to must stay.
    """

    def __init__(self) -> None:
        self.left: list[CompletedCheckpoint] = []

    def discard(self, checkpoints: Iterable[CompletedCheckpoint]) -> list[CompletedCheckpoint]:
        """Delete checkpoints; return those that are gone, earlier ones that were left among them."""
        gone: list[CompletedCheckpoint] = []
        waiting, self.left = [*self.left, *checkpoints], []
        for checkpoint in waiting:
            (gone if discard(snapshot_location(checkpoint.path)) else self.left).append(checkpoint)
        return gone
