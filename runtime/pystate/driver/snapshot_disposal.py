"""Deleting the files of checkpoints that nobody needs: subsumed ones, and what failed ones have left."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import PystateError

_KEPT_FAILURES = 1000


def discard(location: SnapshotLocation) -> None:
    """Delete a snapshot; where that fails, say so and leave it."""
    try:
        location.discard()
    except PystateError as error:
        sys.stderr.write(f"WARNING: {error}\n")


class FailedCheckpoints:
    """Where the last failed checkpoints were written, for subtasks that are late to write their part. Not locked."""

    def __init__(self) -> None:
        self._locations: dict[int, SnapshotLocation] = {}
        self._late: set[int] = set()

    def add(self, checkpoint_id: int, location: SnapshotLocation) -> None:
        """Remember a failed checkpoint."""
        self._locations[checkpoint_id] = location
        while len(self._locations) > _KEPT_FAILURES:
            del self._locations[next(iter(self._locations))]

    def report_late(self, checkpoint_id: int) -> None:
        """Take note that a subtask has written its part of a checkpoint that isn't running any more."""
        self._late.add(checkpoint_id)

    def take_late(self) -> dict[int, SnapshotLocation]:
        """Return where late parts may lie, by checkpoint; each is returned once."""
        late, self._late = self._late, set()
        return {checkpoint_id: self._locations[checkpoint_id] for checkpoint_id in late if checkpoint_id in self._locations}


def discard_all(locations: Iterable[SnapshotLocation]) -> None:
    """Delete several snapshots."""
    for location in locations:
        discard(location)
