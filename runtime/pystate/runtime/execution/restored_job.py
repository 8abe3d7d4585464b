"""The state that an attempt starts from."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.slot.snapshots.restore_progress import bytes_to_read
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator


@dataclass
class RestoredJob:
    """The state that an attempt starts from; the positions of sources are the engine's.

    Attributes:
        operators: Per slot, by operator uid: the state assigned to its subtask.
        checkpoint_id: The checkpoint of the state; None for a start without a snapshot.
        checkpoint_timestamp: When it was triggered, ms since 1970; None likewise.
    """

    operators: list[dict[str, RestoredOperator]]
    checkpoint_id: int | None = None
    checkpoint_timestamp: int | None = None

    def keyed_bytes(self, tasks: list[TaskSpec]) -> int:
        """Return how many bytes of keyed state the slots read in total; a file that several slots need counts for each."""
        return sum(
            bytes_to_read(handle, task.key_group_range(slot))
            for task in tasks
            for slot, operators in enumerate(self.operators[: task.parallelism])
            if task.uid in operators
            for handle in operators[task.uid].keyed_state
        )
