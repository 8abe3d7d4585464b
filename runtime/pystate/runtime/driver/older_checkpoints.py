"""Decides whether a job may fall back to a snapshot before its newest one by itself."""

from __future__ import annotations

import shlex

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError, SnapshotError
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.retention.fallback_snapshot import FallbackSnapshot
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.once_only_output import once_only_sinks


class OlderCheckpoints:
    """The rule of one job. Results committed by newer snapshots would be written twice, so users must decide.

    Args:
        sinks: The names of its sinks that are exactly-once as long as the job doesn't fall back.
        allowed: Whether it may fall back nevertheless.
    """

    def __init__(self, sinks: list[str], *, allowed: bool) -> None:
        self._sinks = sinks
        self._allowed = allowed

    @classmethod
    def of(cls, plan: JobPlan, configuration: Configuration) -> OlderCheckpoints:
        """Return the rule for a job."""
        allowed = configuration.get(PystateOptions.RECOVERY_ALLOW_OLDER_CHECKPOINT)
        return cls(once_only_sinks(plan, configuration), allowed=allowed)

    @property
    def warning(self) -> str:
        """The warning when the job does fall back; begins with a space."""
        return f" WARNING: What {self._names()} committed since becomes visible once more." if self._sinks else ""

    def go_back(self, error: PystateError, coordinator: CheckpointCoordinator) -> PystateError | None:
        """Fall back past the latest snapshot if it is damaged; return None then, else the failure.

        Args:
            error: Of an attempt.
            coordinator: The job's checkpoints.
        """
        if not isinstance(error, CorruptSnapshotError):
            return error
        try:
            return None if coordinator.give_up_latest(error, self.check) else error
        except SnapshotError as refused:  # or the storage is away: a disk that isn't mounted will be, and nothing is damaged
            return refused

    def check(self, way: FallbackSnapshot) -> None:
        """Reject a fallback if elements would be written twice, or if no snapshot is left.

        Raises:
            RestoreError: The fallback is rejected; it names the lost snapshot, the remaining one, and the command to
                continue.
        """
        if self._allowed or (way.older is not None and not self._sinks):
            return
        start = (
            f"the newest one before it is {way.older}"
            if way.older
            else "none is left: the job would begin again where it was started"
        )
        twice = f"what {self._names()} committed since would be written twice"
        cost = twice if self._sinks else "all its state would be lost"
        message = (
            f"The newest snapshot of the job, {way.lost}, can't be restored, and {start}. The job doesn't go back by itself:"
            f" {cost}. {way.why}"
        )
        run = "the command that started it" if way.path is None else f"pystate run -s {shlex.quote(way.path)} PROGRAM"
        option = f"-D {PystateOptions.RECOVERY_ALLOW_OLDER_CHECKPOINT.key}=true"
        first = "remove what was committed since, or accept it twice, and go on" if self._sinks else "go on"
        hint = (
            f"bring the newest one back and start from it; or {first} with: {run} (with {option} a job goes back by itself)"
        )
        raise RestoreError(message, hint=hint)

    def _names(self) -> str:
        return ("sink " if len(self._sinks) == 1 else "sinks ") + ", ".join(repr(name) for name in self._sinks)
