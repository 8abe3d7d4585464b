"""Deletes the files of obsolete checkpoints: of subsumed and of failed ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping

from pystate.common.errors import PystateError
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint


def discard(location: SnapshotLocation) -> bool:
    """Delete a snapshot; if that fails, log it and return False."""
    try:
        location.discard()
    except PystateError as error:
        sys.stderr.write(f"WARNING: {error}\n")
        return False
    return True


class FailedRemains:
    """Deletes the directories of failed checkpoints, and retries with the next ones if the storage failed.

    Writing `_metadata` may have failed after its last byte: as long as the directory can't be deleted, a later driver may
    consider the checkpoint complete, so its files must be kept. Thread-safe.
    """

    def __init__(self) -> None:
        self._left: dict[int, tuple[SnapshotLocation, int]] = {}
        self._held: set[int] = set()
        self._lock = threading.Lock()

    def add(self, checkpoint_id: int, location: SnapshotLocation, base: int, *, held: bool) -> None:
        """Add a failed checkpoint that is to be deleted.

        Args:
            checkpoint_id: Its id.
            location: Where it was written.
            base: The oldest checkpoint whose files it may refer to.
            held: Whether it is still being written: then it isn't deleted before `release`.
        """
        with self._lock:
            self._left[checkpoint_id] = (location, base)
            if held:
                self._held.add(checkpoint_id)

    def release(self, checkpoint_id: int) -> None:
        """Record that it isn't being written any more."""
        with self._lock:
            self._held.discard(checkpoint_id)

    def discard(self, failed: Mapping[int, SnapshotLocation], base: int = 0) -> list[int]:
        """Delete the remains of failed checkpoints; return the ids of the deleted ones, including earlier ones.

        Args:
            failed: Their locations, by id.
            base: The oldest checkpoint whose files they may refer to.
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
        """The oldest checkpoint whose files an undeleted one may refer to; None if there is none."""
        with self._lock:
            return min((base for _, base in self._left.values()), default=None)


class Discards:
    """Deletes completed checkpoints, and retries with the next ones if the storage failed. Not thread-safe.

    Attributes:
        left: Those that could not be deleted yet: the files they refer to must be kept.
    """

    def __init__(self) -> None:
        self.left: list[CompletedCheckpoint] = []

    def discard(self, checkpoints: Iterable[CompletedCheckpoint]) -> list[CompletedCheckpoint]:
        """Delete checkpoints; return the deleted ones, including earlier ones."""
        gone: list[CompletedCheckpoint] = []
        waiting, self.left = [*self.left, *checkpoints], []
        for checkpoint in waiting:
            (gone if discard(snapshot_location(checkpoint.path)) else self.left).append(checkpoint)
        return gone
