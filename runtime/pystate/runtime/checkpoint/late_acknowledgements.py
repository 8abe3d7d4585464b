"""Parts of checkpoints that subtasks wrote after the checkpoint had failed."""

from __future__ import annotations

from pystate.common.bounded_dict import BoundedDict
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

_KEPT_FAILURES = 1000


class LateAcknowledgements:
    """The locations of late parts of the last failed checkpoints. Not thread-safe: callers hold the coordinator's lock."""

    def __init__(self) -> None:
        self._failed: BoundedDict[int, SnapshotLocation] = BoundedDict(_KEPT_FAILURES)
        self._late: set[int] = set()

    def checkpoint_failed(self, checkpoint_id: int, location: SnapshotLocation) -> None:
        """Remember where a failed checkpoint was written."""
        self._failed.put(checkpoint_id, location)

    def report(self, checkpoint_id: int) -> None:
        """Record that a subtask has written its part of a checkpoint that isn't pending any more."""
        self._late.add(checkpoint_id)

    def take(self) -> dict[int, SnapshotLocation]:
        """Return the possible locations of late parts, by checkpoint; each is returned once."""
        late, self._late = self._late, set()
        found = ((checkpoint_id, self._failed.get(checkpoint_id)) for checkpoint_id in late)
        return {checkpoint_id: location for checkpoint_id, location in found if location is not None}
