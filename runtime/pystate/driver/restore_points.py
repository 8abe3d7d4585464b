"""What a new attempt of a job can start from: its checkpoints, the snapshot it was started from, a running epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.completed_store import CompletedCheckpointStore
from pystate.checkpoint.memory_storage import snapshot_location
from pystate.checkpoint.running_epoch import RunningEpoch, RunningEpochStore
from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.driver.checkpoint_recovery import recover_checkpoints
from pystate.driver.checkpoint_settings import CheckpointSettings
from pystate.driver.restored_state import Snapshot
from pystate.driver.shared_state import SharedState
from pystate.driver.snapshot_disposal import discard_all
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory


class RestorePoints:
    """The restore points of one job. Its decisions are free of threads: the coordinator holds its lock around them.

    Args:
        settings: Where they are, and how many are kept.
        job_id: The job.

    Attributes:
        starting: The snapshot the job was started from, or None.
        shared: The files that several checkpoints refer to.
    """

    def __init__(self, settings: CheckpointSettings, job_id: str) -> None:
        self._settings = settings
        self._job_id = job_id
        self._store = CompletedCheckpointStore(settings.retained)
        self.shared = SharedState(settings.storage, job_id, writes=settings.incremental)
        self._running_epochs: RunningEpochStore | None = None
        if settings.every_epoch:
            self._running_epochs = RunningEpochStore(settings.storage.task_owned_location)
        self._left_out = False
        self.starting: Snapshot | None = None

    def recover(self, say: Callable[[str], None]) -> int:
        """Take over the checkpoints of an earlier driver of the job; return the highest id of any.

        Args:
            say: Takes a sentence about a damaged checkpoint that an older one stands in for.

        Raises:
            CorruptSnapshotError: There is none but a damaged one.
            SnapshotError: The storage can't be read.
        """
        recovered = recover_checkpoints(self._settings.storage, self._job_id, say)
        self._store.recover(recovered.completed)
        self.shared.recover(recovered.completed)
        self._left_out = recovered.left_out
        return recovered.highest_id

    def delete_orphans(self, next_id: int) -> None:
        """Delete shared files that no checkpoint refers to, at the start of an attempt: none is under way.

        Files of damaged checkpoints stay, and everybody's with them: such a checkpoint doesn't say which are its.

        Args:
            next_id: The number of the next checkpoint.
        """
        if not self._left_out and self._settings.incremental:
            self.shared.delete_orphans(next_id)

    def give_up_latest(self) -> bool:
        """Forget the latest checkpoint, which is damaged; return whether an older one of the job is there to restore.

        It stays on the storage, for whoever wants to know what happened to it.
        """
        kept = self._store.checkpoints
        if len(kept) < 2:
            return False
        self._store.recover(kept[:-1])
        return True

    def add(self, completed: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Take in a checkpoint; return those it subsumes, which are to be discarded."""
        return self._store.add(completed)

    def discard_subsumed(self, subsumed: list[CompletedCheckpoint]) -> None:
        """Delete checkpoints that `add` returned, and the shared files that are of no use without them."""
        discard_all(snapshot_location(checkpoint.path) for checkpoint in subsumed)
        kept = self._store.checkpoints
        if subsumed and kept:
            self.shared.subsumed(kept[0].checkpoint_id)

    def latest(self) -> Snapshot | None:
        """Return the job's latest checkpoint, else the snapshot it was started from."""
        latest = self._store.latest
        if latest is None:
            return self.starting
        return Snapshot(snapshot_location(latest.path), latest.metadata, starting=False)

    def begin_epoch(self, epoch: int, batch: int, spark: SparkCheckpointDirectory, base: Snapshot | None) -> None:
        """Write down the epoch that is about to run, where each one is to be run again after a failure.

        Raises:
            SnapshotError: The storage failed.
        """
        if self._running_epochs is not None:
            uri = None if base is None else base.location.uri
            self._running_epochs.write(RunningEpoch(epoch, batch, uri, spark.capture_running(batch)))

    def running_epoch(self, base: Snapshot | None) -> RunningEpoch | None:
        """Return the epoch that ran when the last attempt ended, if it is to be run again behind `base`.

        Raises:
            CorruptSnapshotError: It is damaged.
            SnapshotError: The storage can't be read.
        """
        running = None if self._running_epochs is None else self._running_epochs.read()
        uri = None if base is None else base.location.uri
        return running if running is not None and running.base == uri else None

    def discard_on(self, status: JobStatus) -> None:
        """Delete what the end of the job leaves to nobody."""
        before = self._store.checkpoints
        gone = self._store.discard_on(status, self._settings.retention)
        discard_all(snapshot_location(checkpoint.path) for checkpoint in gone)
        if status.is_terminal and not self._left_out:
            self.shared.recover(checkpoint for checkpoint in before if checkpoint not in gone)
            self.shared.delete_orphans()
        if self._running_epochs is not None and status.is_terminal:
            try:
                self._running_epochs.clear()
            except PystateError as error:
                sys.stderr.write(f"WARNING: {error}\n")
