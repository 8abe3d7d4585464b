"""Claims the snapshot that a job is started from."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pystate.common.errors import PystateError, RestoreError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage import ownership
from pystate.core.snapshot.storage.ownership import NoteKind, Notes
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


class SnapshotClaiming:
    """The claims of one job.

    Args:
        job_id: The job.
        checkpoints: URI of the directory with its checkpoints; None if there is none.
    """

    def __init__(self, job_id: str, checkpoints: str | None) -> None:
        self._job_id = job_id
        self._checkpoints = checkpoints

    def claim(self, snapshot: Snapshot, job_runs: Callable[[str], bool | None]) -> None:
        """Claim a snapshot; idempotent.

        Args:
            snapshot: Which.
            job_runs: Whether a job has not ended; None for an unknown one.

        Raises:
            RestoreError: It is another job's.
            SnapshotError: The storage failed.
        """
        metadata, location = snapshot.metadata, snapshot.location
        taker = metadata.job_id
        if metadata.checkpoint_type is CheckpointType.CHECKPOINT and taker != self._job_id and job_runs(taker):
            message = f"It is a checkpoint of job {taker}, which has not ended: two jobs can't own it."
            raise RestoreError(
                message,
                where=location.uri,
                hint="start with --claimMode no_claim, or cancel that job and keep its checkpoints",
            )
        ownership.claim(location, self._job_id, self._checkpoints, lambda other: job_runs(other) is False)

    def warn_of_owner(self, snapshot: Snapshot) -> None:
        """Warn if a snapshot that is only read may be deleted by another job."""
        try:
            owner = ownership.claimant(snapshot.location)
        except PystateError as error:
            sys.stderr.write(f"WARNING: {error}\n")
            return
        if owner is not None and owner != self._job_id:
            sys.stderr.write(
                f"WARNING: {snapshot.location.uri} is claimed by job {owner}, which may delete it at any time.\n"
            )

    def has_claimed(self, snapshot: Snapshot) -> bool:
        """Whether the job has claimed a snapshot.

        Raises:
            SnapshotError: The storage can't tell.
        """
        return self._job_id in Notes(snapshot.location, NoteKind.CLAIM).read()

    def release(self, location: SnapshotLocation) -> None:
        """Release the claim of a snapshot that outlives the job; a failure is logged."""
        try:
            Notes(location, NoteKind.CLAIM).remove(self._job_id)
        except PystateError as error:
            sys.stderr.write(f"WARNING: {error}\n")
