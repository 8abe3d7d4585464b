"""Advice for a job that has failed for good before its sinks committed its newest snapshot."""

from __future__ import annotations

from pystate.common.errors import CommitError, CorruptSnapshotError, PystateError, RestoreError
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint


def advise_on_uncommitted(error: PystateError, made: CompletedCheckpoint | None, coordinator: CheckpointCoordinator) -> None:
    """Add the snapshot that is to be committed and the command to the error; a checkpoint is kept for it.

    Args:
        error: What ends the job.
        made: The savepoint with which the job was to end; None if there is none.
        coordinator: The job's checkpoints.
    """
    if isinstance(error, (CorruptSnapshotError, RestoreError)):
        return
    if made is not None:
        error.hint = f"the savepoint is complete, and what it holds is committed by: pystate run -s {made.path} ..."
    elif isinstance(error, CommitError):
        latest = None if coordinator.in_memory else coordinator.latest_snapshot()
        if latest is None:
            return
        coordinator.keep_checkpoints()
        first = f"{error.hint}; " if error.hint else ""
        what = f"what {'snapshot' if latest.starting else 'checkpoint'} {latest.metadata.checkpoint_id} holds"
        error.hint = f"{first}{what} is committed by: pystate run -s {latest.location.uri} ..."
