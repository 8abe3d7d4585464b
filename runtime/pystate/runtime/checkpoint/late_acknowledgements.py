"""Parts of checkpoints that subtasks wrote after the checkpoint had failed."""

from __future__ import annotations

from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

_KEPT_FAILURES = 1000


class LateAcknowledgements:
    """The locations of late parts of the last failed checkpoints. Not thread-safe: callers hold the coordinator's lock."""

    def __init__(self) -> None:
        self._failed: dict[int, SnapshotLocation] = {}
        self._late: set[int] = set()

    def checkpoint_failed(self, checkpoint_id: int, location: SnapshotLocation) -> None:
        """Remember where a failed checkpoint was written."""
        self._failed[checkpoint_id] = location
        while len(self._failed) > _KEPT_FAILURES:
            del self._failed[next(iter(self._failed))]

    def report(self, checkpoint_id: int) -> None:
        """Record that a subtask has written its part of a checkpoint that isn't pending any more."""
        self._late.add(checkpoint_id)

    def take(self) -> dict[int, SnapshotLocation]:
        """Return the possible locations of late parts, by checkpoint; each is returned once."""
        late, self._late = self._late, set()
        return {checkpoint_id: self._failed[checkpoint_id] for checkpoint_id in late if checkpoint_id in self._failed}
