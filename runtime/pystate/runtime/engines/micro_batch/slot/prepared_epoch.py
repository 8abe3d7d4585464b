"""What a subtask tells of an epoch whose rows are all in: enough to hold it against what Spark has counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker

SubtaskId = tuple[str, int]
"""The uid of a task and the index of one of its subtasks."""


@dataclass(frozen=True)
class PreparedEpoch:
    """One subtask's share of an epoch.

    Attributes:
        epoch: Which.
        stage_id: The stage of the Spark task that brought the rows.
        task_attempt_id: That task attempt, by Spark's number.
        rows_read: The rows that the task attempt has read behind its shuffle: the subtask's own, and those that pass.
        rows_in: The subtask's own.
        rows_out: The rows of its output; those of a stream that several steps read count once.
        source_ended: Of the subtask of a source: whether no element follows; None for all others.
        next_timer: When the subtask's first timer by the clock is due behind it, ms since 1970; None where it has none.
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
        """The task attempt that brought the rows."""
        return Asker(self.stage_id, self.task_attempt_id)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for the wire."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> PreparedEpoch:
        """Return what `to_plain` made plain."""
        return cls(**plain)
