"""The store of completed checkpoints, which decides which are kept."""

from __future__ import annotations

from collections.abc import Iterable

from pystate.common.configuration.groups.checkpointing_options import ExternalizedCheckpointRetention
from pystate.common.job_status import JobStatus
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint

_RETAIN_ON_FAILURE = (
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
)


class CompletedCheckpointStore:
    """The completed checkpoints that a job can restore.

    A savepoint taken while the job runs is not among them (Flink's rule since 1.15: its completion commits nothing, and
    users may move or delete it). A savepoint the job was recovered from is, until the next checkpoint completes.

    Args:
        num_retained: How many checkpoints are kept, at least 1.
    """

    def __init__(self, num_retained: int) -> None:
        if num_retained < 1:
            message = f"At least one checkpoint must be retained, not {num_retained}."
            raise ValueError(message)
        self._num_retained = num_retained
        self._checkpoints: list[CompletedCheckpoint] = []

    def recover(self, checkpoints: Iterable[CompletedCheckpoint]) -> None:
        """Replace the content by the checkpoints of an earlier driver."""
        self._checkpoints = sorted(checkpoints, key=lambda checkpoint: checkpoint.checkpoint_id)

    def add(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Add a checkpoint; return those it subsumes, to be deleted by the caller.

        Savepoints are neither kept here, nor do they subsume. What the job doesn't own is let go of, never returned.
        """
        if checkpoint.is_savepoint:
            return []
        kept = sorted([*self._checkpoints, checkpoint], key=lambda one: one.checkpoint_id)
        surplus, self._checkpoints = kept[: -self._num_retained], kept[-self._num_retained :]
        return [one for one in surplus if one.may_be_deleted]

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The checkpoint with the highest id."""
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def checkpoints(self) -> list[CompletedCheckpoint]:
        """All that are kept, oldest first."""
        return list(self._checkpoints)

    def discard_on(self, job_status: JobStatus, retention: ExternalizedCheckpointRetention) -> list[CompletedCheckpoint]:
        """Remove everything at the job's end, and return the checkpoints to be deleted.

        Flink's rules: a job that finished, by a stop too, leaves no checkpoint whatever the retention is; a cancelled one
        leaves them with RETAIN_ON_CANCELLATION; a failed one leaves them unless they are not externalized. A job that
        hasn't ended for good keeps all.
        """
        if not job_status.is_terminal:
            return []
        retained = (
            job_status is JobStatus.CANCELED and retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        ) or (job_status is JobStatus.FAILED and retention in _RETAIN_ON_FAILURE)
        gone, self._checkpoints = self._checkpoints, []
        return [] if retained else [one for one in gone if one.may_be_deleted]
