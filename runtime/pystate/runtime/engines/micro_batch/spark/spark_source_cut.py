"""Spark's logs at a cut: the positions of the query's sources, and whether Spark has committed them."""

from __future__ import annotations

import json

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    SparkCheckpointDirectory,
    captured_sources,
    pack_archive,
    source_offsets,
)


class SparkSourceCut:
    """Spark's logs after a batch.

    Args:
        batch: Spark's number of the last batch, -1 before the first.
        files: Content by path below Spark's checkpoint directory.
        directory: That directory; None if the files already contain the batch's commit.
    """

    def __init__(self, batch: int, files: dict[str, bytes], directory: SparkCheckpointDirectory | None = None) -> None:
        self._batch = batch
        self._files = files
        self._directory = directory

    @staticmethod
    def after(directory: SparkCheckpointDirectory, batch: int) -> SparkSourceCut:
        """Copy the logs before the next batch adds to them.

        Raises:
            SnapshotError: A file is missing.
        """
        return SparkSourceCut(batch, directory.capture(batch), directory)

    def settle(self) -> bool:
        """Copy the batch's commit as soon as it exists: Spark deletes it some batches later.

        Spark writes it after the batch's sinks are done. Before that the cut must not be restored.

        Raises:
            SnapshotError: The commit can't be read.
        """
        directory = self._directory  # another thread may settle it at the same time, with the same result
        if directory is None:
            return True
        if not directory.is_committed(self._batch):
            return False
        self._files.update(directory.capture_commit(self._batch))
        self._directory = None
        return True

    def archive(self) -> bytes:
        """Pack the files into one byte string."""
        return pack_archive(self._files)

    def position(self, handle: StateHandle) -> SourcePosition:
        """Return the positions of the sources."""
        files, batch = self._files, self._batch
        offsets = source_offsets(files[f"offsets/{batch}"]) if batch >= 0 else []
        query_id = json.loads(files["metadata"])["id"] if batch >= 0 else ""
        described = [
            {"index": index, "uid": source.uid, "offset": offset}
            for index, (source, offset) in enumerate(zip(captured_sources(files), offsets, strict=True))
        ]
        return SourcePosition(query_id=query_id, epoch=batch, sources=described, files=handle)
