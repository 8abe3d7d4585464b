"""A subtask's report about an epoch that has all its rows: enough to compare it with what Spark has counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker

SubtaskId = tuple[str, int]
"""The uid of a task and the index of one of its subtasks."""


@dataclass(frozen=True)
class PreparedEpoch:
    """One subtask's report about an epoch.

    Attributes:
        epoch: The epoch number.
        stage_id: The stage of the Spark task that sent the rows.
        task_attempt_id: Spark's number of that task attempt.
        rows_read: The rows that the task attempt has read from its shuffle: the subtask's own, and those it passes on.
        rows_in: The subtask's own input rows.
        rows_out: The rows of its output; rows of a stream that several steps read count once.
        source_ended: For the subtask of a source: whether no element follows; None for all others.
        next_timer: When the subtask's first processing-time timer is due after the epoch, ms since 1970; None if it has
            none.
    """

    epoch: int
    stage_id: int
    task_attempt_id: int
    rows_read: int
    rows_in: int
    rows_out: int
    next_timer: int | None = None
    source_ended: bool | None = None

    @property
    def bringer(self) -> Asker:
        """The task attempt that sent the rows."""
        return Asker(self.stage_id, self.task_attempt_id)

    def to_plain(self) -> dict[str, Any]:
        """Return the report as plain data, for the wire."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> PreparedEpoch:
        """Return the report from what `to_plain` returned."""
        return cls(**plain)
