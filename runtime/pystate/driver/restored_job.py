"""What an attempt is restored from."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.plan.task import TaskSpec
from pystate.slot.restore_progress import bytes_to_read
from pystate.slot.restored_operator import RestoredOperator


@dataclass
class RestoredJob:
    """Where an attempt starts from.

    Attributes:
        operators: Per slot, by operator uid: the old state that falls to its subtask.
        spark_files: Spark's logs at the cut; empty for a start from nothing.
        batch_id: Spark's number of the batch at the cut, -1 for none.
        epoch: The epoch number that batch gets in this job.
        keep_query_id: Whether the query stays the same to sinks.
        checkpoint_id: The checkpoint the state is from, None for a start from nothing.
    """

    operators: list[dict[str, RestoredOperator]]
    spark_files: dict[str, bytes]
    batch_id: int = -1
    epoch: int = -1
    keep_query_id: bool = True
    checkpoint_id: int | None = None

    def keyed_bytes(self, tasks: list[TaskSpec]) -> int:
        """Return how many bytes of keyed state the slots read in all; files that several of them need count for each."""
        return sum(
            bytes_to_read(handle, task.key_group_range(slot))
            for task in tasks
            for slot, operators in enumerate(self.operators[: task.parallelism])
            if task.uid in operators
            for handle in operators[task.uid].keyed_state
        )
