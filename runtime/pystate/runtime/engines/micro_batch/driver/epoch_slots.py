"""What the micro-batch engine asks of the slots: to finish an epoch, to take a barrier between two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.execution.slots.slot_pool import SlotPool


class EpochSlots:
    """The slots of one attempt, as far as epochs go.

    Args:
        pool: The slots.
    """

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool

    def snapshot(self, barrier: CheckpointBarrier) -> None:
        """Have all subtasks take the synchronous part of a snapshot.

        Raises:
            PystateError: A slot declined, is gone or not heard of any more, or the attempt has ended.
        """
        plain = barrier.to_plain()
        self._pool.call_all("snapshot", lambda _: {"barrier": plain})

    def source_messages(self, arguments: dict[str, Any]) -> Any:
        """Hand a reader's messages to its enumerator, which is in the first slot, and return the answers.

        Raises:
            PystateError: What the slot answered, or that it is gone.
        """
        return self._pool.call(0, "source_messages", **arguments)

    def finish_epoch(
        self,
        epoch: int,
        prepared: Mapping[SubtaskId, PreparedEpoch],
        barrier: CheckpointBarrier | None,
        slot_finished: Callable[[int], None],
    ) -> None:
        """Have all subtasks make an epoch part of their state, and take the synchronous part of its barrier.

        Args:
            epoch: Which.
            prepared: What each subtask has told of it; the task attempts that it names are proven to be whole.
            barrier: The one that the epoch carries; None for none.
            slot_finished: Called with each slot that has done it.

        Raises:
            PystateError: A subtask can't or hangs, a slot is gone or not heard of any more, or the attempt has ended.
        """
        attempts: dict[int, dict[str, int]] = {}
        for (uid, subtask), share in prepared.items():
            attempts.setdefault(subtask, {})[uid] = share.task_attempt_id
        plain = None if barrier is None else barrier.to_plain()

        def arguments(index: int) -> dict[str, Any]:
            return {"epoch": epoch, "task_attempts": attempts.get(index, {}), "barrier": plain}

        self._pool.call_all("finish_epoch", arguments, slot_finished, f"finish epoch {epoch}")
