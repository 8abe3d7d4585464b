"""What the sources of a snapshot's job had read."""

from __future__ import annotations

from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.split_positions import split_positions
from pystate.runtime.engines.micro_batch.spark.source_progress import SourceProgress, source_progress, words


def snapshot_sources(location: SnapshotLocation, metadata: CheckpointMetadata) -> list[SourceProgress]:
    """Return the positions of all sources: those that Spark reads, and those in slots.

    Raises:
        SnapshotError: A file is missing or damaged.
    """
    position, found = metadata.source_position, []
    if position is not None:
        found = source_progress(position, location.read_whole(position.files))
    in_slots = split_positions(location, metadata.operators)
    return found + [SourceProgress(uid, words(offset, {}), offset) for uid, offset in in_slots.items()]
