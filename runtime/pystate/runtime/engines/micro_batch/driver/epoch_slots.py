"""The micro-batch engine's calls to the slots: finish an epoch, take a barrier between two epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.execution.slots.slot_pool import SlotPool


class EpochSlots:
    """The slots of one attempt, as seen by its epochs.

    Args:
        pool: The slots.
    """

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool

    def snapshot(self, barrier: CheckpointBarrier) -> None:
        """Have all subtasks take the synchronous part of a snapshot.

        Raises:
            PystateError: A slot declined, is lost or unreachable, or the attempt has ended.
        """
        plain = barrier.to_plain()
        self._pool.call_all("snapshot", lambda _: {"barrier": plain})

    def source_messages(self, arguments: dict[str, Any]) -> Any:
        """Pass a reader's messages to its enumerator, which runs in the first slot, and return the answers.

        Raises:
            PystateError: The slot answered with an error, or is lost.
        """
        return self._pool.call(0, "source_messages", **arguments)

    def finish_epoch(
        self,
        epoch: int,
        prepared: Mapping[SubtaskId, PreparedEpoch],
        barrier: CheckpointBarrier | None,
        slot_finished: Callable[[int], None],
    ) -> None:
        """Have all subtasks commit an epoch to their state and take the synchronous part of its barrier.

        Args:
            epoch: The epoch number.
            prepared: What each subtask has reported about it; the task attempts named there are proven complete.
            barrier: The barrier that the epoch carries, or None.
            slot_finished: Called with each slot that has finished.

        Raises:
            PystateError: A subtask fails or hangs, a slot is lost or unreachable, or the attempt has ended.
        """
        attempts: dict[int, dict[str, int]] = {}
        for (uid, subtask), share in prepared.items():
            attempts.setdefault(subtask, {})[uid] = share.task_attempt_id
        plain = None if barrier is None else barrier.to_plain()

        def arguments(index: int) -> dict[str, Any]:
            return {"epoch": epoch, "task_attempts": attempts.get(index, {}), "barrier": plain}

        self._pool.call_all("finish_epoch", arguments, slot_finished, f"finish epoch {epoch}")
