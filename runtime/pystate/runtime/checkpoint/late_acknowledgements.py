"""What subtasks have written of checkpoints that had failed by then."""

from __future__ import annotations

from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

_KEPT_FAILURES = 1000


class LateAcknowledgements:
    """Where late parts of the last failed checkpoints lie. Free of threads: callers hold the coordinator's lock."""

    def __init__(self) -> None:
        self._failed: dict[int, SnapshotLocation] = {}
        self._late: set[int] = set()

    def checkpoint_failed(self, checkpoint_id: int, location: SnapshotLocation) -> None:
        """Remember where a failed checkpoint was written."""
        self._failed[checkpoint_id] = location
        while len(self._failed) > _KEPT_FAILURES:
            del self._failed[next(iter(self._failed))]

    def report(self, checkpoint_id: int) -> None:
        """Record that a subtask has written its part of a checkpoint that isn't under way any more."""
        self._late.add(checkpoint_id)

    def take(self) -> dict[int, SnapshotLocation]:
        """Return where late parts may lie, by checkpoint; each is returned once."""
        late, self._late = self._late, set()
        return {checkpoint_id: self._failed[checkpoint_id] for checkpoint_id in late if checkpoint_id in self._failed}
