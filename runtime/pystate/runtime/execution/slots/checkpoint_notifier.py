"""Notifies slots of how checkpoints ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from pystate.common.errors import PystateError
from pystate.runtime.execution.slots.registered_slot import RegisteredSlot


class CheckpointNotifier:
    """Notifies all slots of an attempt of checkpoints, in the order of the calls.

    Args:
        slots: Returns the registered slots.
        slots_hang: Called with the slots that did not respond in time, what they were to do, and the time, s.
        at_once: How many slots are notified concurrently.
        timeout_s: How long the functions of a slot may take; None for ever.
    """

    def __init__(
        self,
        slots: Callable[[], list[RegisteredSlot]],
        slots_hang: Callable[[list[int], str, float], None],
        *,
        at_once: int,
        timeout_s: float | None,
    ) -> None:
        self._slots = slots
        self._slots_hang = slots_hang
        self._timeout_s = timeout_s
        self._turns = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notify-checkpoint")
        self._calls = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="notify-slot")

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        """Notify all subtasks of how a checkpoint ended.

        Returns:
            Done when every function that is between two epochs has been called; one whose epoch runs is called after it. A
            slot that can't be reached isn't notified: it is lost, or a later notification replaces this one. The result is
            whether all functions that are to be notified have been called, and none has failed.
        """
        outer: Future[bool] = Future()
        outer.set_running_or_notify_cancel()
        try:
            turn = self._turns.submit(self._notify, checkpoint_id, completed)
        except RuntimeError:  # closed
            outer.set_result(False)
            return outer
        turn.add_done_callback(
            lambda done: outer.set_result(not done.cancelled() and not done.exception() and done.result())
        )
        return outer

    def close(self) -> None:
        """Stop notifying."""
        for calls in (self._turns, self._calls):
            calls.shutdown(wait=False, cancel_futures=True)

    def _notify(self, checkpoint_id: int, completed: bool) -> bool:
        def tell(slot: RegisteredSlot) -> bool:
            try:
                return slot.notifications.call("notify", checkpoint_id=checkpoint_id, completed=completed) is True
            except PystateError:
                return False

        told = {self._calls.submit(tell, slot): slot.index for slot in self._slots()}
        ended, not_done = wait(told, self._timeout_s)
        if not_done and self._timeout_s is not None:
            hanging = sorted(told[one] for one in not_done)
            self._slots_hang(hanging, f"hear how checkpoint {checkpoint_id} ended", self._timeout_s)
        return not not_done and all(not one.cancelled() and one.result() for one in ended)
