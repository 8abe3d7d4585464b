"""The snapshots that a new attempt can start from: the job's checkpoints, and the snapshot it was started from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from pystate.common.configuration.groups.checkpointing_options import RecoveryClaimMode
from pystate.common.errors import PystateError, RestoreError, SnapshotError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.checkpoint_recovery import recover_checkpoints
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.confirmed_checkpoints import Confirmed
from pystate.runtime.checkpoint.retention.completed_store import CompletedCheckpointStore
from pystate.runtime.checkpoint.retention.fallback_snapshot import (
    CheckFallback,
    FallbackSnapshot,
    any_fallback,
    damage,
    told,
)
from pystate.runtime.checkpoint.retention.held_savepoint import HeldSavepoint, HeldSavepointStore
from pystate.runtime.checkpoint.retention.shared_state_files import SharedStateFiles
from pystate.runtime.checkpoint.retention.snapshot_claiming import SnapshotClaiming
from pystate.runtime.checkpoint.retention.snapshot_disposal import Discards, FailedRemains
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.checkpoint.snapshot_metadata import Parent


class RestorePoints:
    """The restore points of one job. Its decisions are not thread-safe: the coordinator holds its lock around them.

    Args:
        settings: Their locations, and how many are kept.
        job_id: The job.

    Attributes:
        starting: The snapshot the job was started from, or None.
        parent: Its description in the job's snapshots, kept after it is deleted; None for a start without a snapshot.
        shared: The files that several checkpoints refer to.
    """

    def __init__(self, settings: CheckpointSettings, job_id: str) -> None:
        self._settings = settings
        self._job_id = job_id
        self._store = CompletedCheckpointStore(settings.retained)
        self.shared = SharedStateFiles(settings.storage, job_id, writes=settings.incremental)
        self._left_out = False
        self._discards = Discards()
        self._failed = FailedRemains()
        directory = settings.storage.job_directory if settings.storage.has_checkpoint_directory else None
        self._claiming = SnapshotClaiming(job_id, directory)
        writes_down = settings.enabled and settings.storage.has_checkpoint_directory
        self._held_file = HeldSavepointStore(settings.storage.task_owned_location) if writes_down else None
        self._held: CompletedCheckpoint | None = None
        self._ends_at: int | None = None
        self._kept = False
        self.starting: Snapshot | None = None
        self.parent: Parent | None = None

    def recover(
        self, say: Callable[[str], None], check: CheckFallback = any_fallback, last_completed: int | None = None
    ) -> int:
        """Recover the checkpoints of an earlier driver of the job; return the highest id.

        Args:
            say: Is called with a sentence about a damaged checkpoint that an older one replaces.
            check: Raises where it may not.
            last_completed: The id of the last checkpoint that is known to have completed; None if there is none.

        Raises:
            CorruptSnapshotError: There is none but a damaged one.
            RestoreError: An older one may not take the place of the newest.
            SnapshotError: The storage can't be read.
        """
        recovered = recover_checkpoints(self._settings.storage, self._job_id, say, last_completed)
        self._store.recover(recovered.completed)
        self.shared.recover(recovered.completed)
        self._left_out = bool(recovered.damaged)
        self._held = None if self._held_file is None else self._held_file.latest(self._job_id)
        newest = self._newest_last[-1] if self._newest_last else None
        lost = recovered.lost_after(0 if newest is None else newest.checkpoint_id)
        if lost is not None:
            number, uri, why = lost
            check(_fallback(told("checkpoint", number, uri), why, newest))
            if recovered.missing is not None:
                say(f"WARNING: Checkpoint {number} completed, and is gone ({uri}); the job goes on from an older state.")
        for metadata in (one.metadata for one in recovered.completed):
            self.parent = None if metadata.parent is None else Parent(metadata.parent, metadata.parent_id)
        return recovered.highest_id

    def start_from(
        self, starting: Snapshot, mode: RecoveryClaimMode, job_runs: Callable[[str], bool | None] = lambda _: None
    ) -> None:
        """Set the snapshot the job was started from; to be called after `recover`, by each driver of the job.

        Args:
            starting: The snapshot.
            mode: Who owns it from now on.
            job_runs: Whether a job has not ended; None for an unknown one.

        Raises:
            RestoreError: Another job owns it.
            SnapshotError: The storage failed.
        """
        self.starting, self.parent = starting, Parent.of(starting)
        metadata = starting.metadata
        if not self._settings.storage.has_checkpoint_directory:
            mode = RecoveryClaimMode.NO_CLAIM  # checkpoints die with the driver: the next one starts from the snapshot again
        if mode is not RecoveryClaimMode.CLAIM:
            self._claiming.warn_of_owner(starting)
        if mode is RecoveryClaimMode.CLAIM:
            self._claiming.claim(starting, job_runs)
            claimed = CompletedCheckpoint(metadata, starting.location.uri, metadata.timestamp_ms, claimed=True)
            self._store.recover([claimed, *self._store.checkpoints])
        if mode is not RecoveryClaimMode.NO_CLAIM:
            self.shared.adopt(metadata, claimed=mode is RecoveryClaimMode.CLAIM)

    def has_claimed(self, snapshot: Snapshot) -> bool:
        """Whether an earlier driver of the job has claimed a snapshot.

        Raises:
            SnapshotError: The storage can't tell.
        """
        return self._claiming.has_claimed(snapshot)

    def delete_orphans(self, next_id: int) -> None:
        """Delete shared files that no checkpoint refers to, at the start of an attempt, when none is pending.

        Files of damaged checkpoints stay, and everybody's with them: such a checkpoint doesn't say which are its.

        Args:
            next_id: The number of the next checkpoint.
        """
        self.shared.begin_attempt()
        self.discard_failed({})
        if self._settings.incremental and not self._unsure:
            self.shared.delete_orphans(next_id)

    @property
    def _unsure(self) -> bool:
        """Whether there is a checkpoint on the storage whose referenced files are unknown."""
        return self._left_out or self._failed.lowest_base is not None

    @property
    def _newest_last(self) -> list[CompletedCheckpoint]:
        held = [] if self._held is None else [self._held]
        return sorted([*self._store.checkpoints, *held], key=lambda one: one.checkpoint_id)

    def check_storage(self) -> None:
        """Check that the job's checkpoints, if any, are accessible. Reads files, so must not be called under the lock.

        Raises:
            SnapshotError: See `CheckpointStorageAccess.check_there`.
        """
        if self._newest_last:  # else a job falls back to the snapshot that it was started from
            self._settings.storage.check_there()

    def give_up_latest(self, error: PystateError, check: CheckFallback = any_fallback) -> bool:
        """Discard the latest checkpoint, which is damaged; return whether an older one of the job can be restored.

        It stays on the storage, for investigation.

        Args:
            error: The error that revealed the damage.
            check: Raises if the job must not fall back. Then all checkpoints are kept, even at the job's end.

        Raises:
            RestoreError: The job must not fall back.
        """
        points = self._newest_last
        if len(points) < 2:
            return False
        latest = points[-1]
        try:
            check(_fallback(_told(latest), damage(error), points[-2]))
        except RestoreError:
            self.keep()
            raise
        if latest is self._held:
            self._held = None
        else:
            self._store.recover(self._store.checkpoints[:-1])
        return True

    def keep(self) -> None:
        """Keep all checkpoints even at the job's end: users are advised to continue from one."""
        self._kept = True

    def about_to_hold(self, checkpoint_id: int, location: SnapshotLocation) -> None:
        """Record a savepoint that is about to complete, and with which the job is to end.

        Raises:
            SnapshotError: The storage failed.
        """
        if self._held_file is not None:
            self._held_file.write(HeldSavepoint(checkpoint_id, location.uri))

    def hold(self, completed: CompletedCheckpoint) -> None:
        """Forbid restoring anything older than a savepoint: sinks commit what it holds, and the job is to end."""
        self._held = completed
        self._ends_at = completed.checkpoint_id

    def ends_at(self, snapshot: Snapshot | None) -> bool:
        """Whether the job ends with a snapshot, as far as this driver knows."""
        return snapshot is not None and snapshot.metadata.checkpoint_id == self._ends_at

    def add(self, completed: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Add a checkpoint; return those it subsumes, which are to be discarded."""
        return self._store.add(completed)

    def discard_subsumed(
        self, subsumed: list[CompletedCheckpoint], lowest_base: int | None = None
    ) -> list[CompletedCheckpoint]:
        """Delete checkpoints that `add` returned, and the shared files that nothing can refer to any more.

        A file is kept as long as a checkpoint that is kept, is pending, or could not be deleted may refer to it.

        Args:
            subsumed: The checkpoints.
            lowest_base: The oldest checkpoint whose files a pending one may refer to; None if there is none.

        Returns:
            The deleted ones. The others are retried the next time.
        """
        gone = self._discards.discard(subsumed)
        self.discard_failed({})
        there = (one.checkpoint_id for one in [*self._store.checkpoints, *self._discards.left])
        lowest = min((one for one in (*there, lowest_base, self._failed.lowest_base) if one is not None), default=None)
        if lowest is not None:
            self.shared.subsumed(lowest)
        return gone

    def note_failed(
        self, checkpoint_id: int, location: SnapshotLocation, told: Confirmed | None, *, held: bool = False
    ) -> None:
        """Keep the files that a failed checkpoint may refer to until it is deleted.

        Args:
            checkpoint_id: Which.
            location: Where it was written.
            told: What its barrier told: which files it may name besides its own.
            held: Its metadata is being written: it isn't deleted before `finalizing_over`.
        """
        self._failed.add(checkpoint_id, location, 0 if told is None else told.base, held=held)

    def finalizing_over(self, checkpoint_id: int) -> None:
        """Delete a failed checkpoint whose metadata was being written; only if it is the job's."""
        self._failed.release(checkpoint_id)
        self.discard_failed({})

    def discard_failed(self, failed: Mapping[int, SnapshotLocation], told: Confirmed | None = None) -> None:
        """Delete the remains of failed checkpoints; if the storage fails, that is retried with the next one.

        Args:
            failed: Where they were written, by number.
            told: What their barrier told: which files they may name besides their own.
        """
        for checkpoint_id in self._failed.discard(failed, 0 if told is None else told.base):
            self.shared.discard_failed(checkpoint_id)

    def latest(self) -> Snapshot | None:
        """Return the job's latest checkpoint, or a later savepoint that is held, else the snapshot it was started from."""
        latest, held = self._store.latest, self._held
        if held is not None and (latest is None or held.checkpoint_id > latest.checkpoint_id):
            return Snapshot(snapshot_location(held.path), held.metadata, starting=False)
        if latest is None or latest.claimed:
            return self.starting
        return Snapshot(snapshot_location(latest.path), latest.metadata, starting=False)

    def discard_on(self, status: JobStatus) -> list[CompletedCheckpoint]:
        """Delete what isn't retained after the job's end; return the deleted checkpoints."""
        before = self._store.checkpoints
        gone = [] if self._kept else self._store.discard_on(status, self._settings.retention)
        if before and before[-1] in gone and before[-1].claimed:
            gone.remove(before[-1])  # nothing newer was ever taken: it is the only copy of the state
        retained = [checkpoint for checkpoint in before if checkpoint not in gone]
        deleted = self._discards.discard(gone)
        if not status.is_terminal:
            return deleted
        for checkpoint in retained:
            if checkpoint.claimed:
                self._claiming.release(snapshot_location(checkpoint.path))
        self.discard_failed({})
        if self._held_file is not None:
            with contextlib.suppress(SnapshotError):  # a note of a job that has ended is harmless
                self._held_file.clear()
        if not self._unsure:
            self.shared.end([checkpoint.metadata for checkpoint in [*retained, *self._discards.left]])
        return deleted


def _told(one: CompletedCheckpoint) -> str:
    return told("savepoint" if one.is_savepoint else "checkpoint", one.checkpoint_id, one.path)


def _fallback(lost: str, why: str, older: CompletedCheckpoint | None) -> FallbackSnapshot:
    return FallbackSnapshot(lost, why, *((None, None) if older is None else (_told(older), older.path)))
