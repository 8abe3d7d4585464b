"""Concurrent calls to the slots of an attempt."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NoReturn

from pystate.common.errors import ConnectionLostError, PystateError
from pystate.runtime.execution.slots.awaited_answers import AwaitedAnswers
from pystate.runtime.execution.slots.registered_slot import RegisteredSlot

_WATCH_S = 0.1
_SHUTDOWN_S = 2.0


class SlotGateways:
    """Calls slots, without waiting for slots that will never answer.

    Args:
        slots: Returns the registered slots.
        slots_hang: Called with the slots that did not answer in time, what they were to do, and the time, s.
        check_alive: Raises if an answer can't come any more.
        await_death: Waits until the end of a slot whose connection has broken is reported.
        at_once: How many slots are called concurrently.
        timeout_s: How long a bounded call may take; None for ever.
    """

    def __init__(
        self,
        slots: Callable[[], list[RegisteredSlot]],
        slots_hang: Callable[[list[int], str, float], None],
        check_alive: Callable[[], None],
        await_death: Callable[[], None],
        *,
        at_once: int,
        timeout_s: float | None,
    ) -> None:
        self._slots = slots
        self._slots_hang = slots_hang
        self._check_alive = check_alive
        self._await_death = await_death
        self._timeout_s = timeout_s
        self._calls = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="slot-call")

    def call_all(
        self,
        op: str,
        arguments: Callable[[int], dict[str, Any]],
        answered: Callable[[int], object] = lambda _: None,
        bounded: str | None = None,
    ) -> dict[int, Any]:
        """Call all slots concurrently and wait for their answers.

        Args:
            op: The operation; those unknown to the slot are passed to its engine.
            arguments: Returns the arguments for a slot.
            answered: Called with each slot that has done it.
            bounded: The operation in words, if it is limited by the checkpoint timeout.

        Returns:
            The answer of each slot.

        Raises:
            PystateError: A slot answered with an error, a slot is lost or silent, or the attempt has ended.
        """

        def answer_of(slot: RegisteredSlot, wait_for_answer: Callable[[], Any]) -> Any:
            answer = wait_for_answer()
            answered(slot.index)
            return answer

        limit_s = self._timeout_s
        deadline = None if bounded is None or limit_s is None else time.monotonic() + limit_s
        calls: dict[Future[Any], int] = {}

        def watch(unanswered: Iterable[int]) -> None:
            nonlocal deadline
            self._check_alive()
            if deadline is not None and time.monotonic() >= deadline:
                left = [*unanswered, *(index for one, index in calls.items() if not one.done())]
                self._slots_hang(sorted(left), str(bounded), limit_s or 0.0)
                deadline = None  # the attempt ends, and with it the wait

        def arrived(slot: RegisteredSlot, waits: Callable[[], Any]) -> None:
            calls[self._calls.submit(answer_of, slot, waits)] = slot.index

        with AwaitedAnswers(arrived) as sent:
            for slot in self._slots():
                words = arguments(slot.index)
                try:
                    waits = slot.control.begin(op, **words)
                except ConnectionLostError as error:
                    sent.arrived(slot, partial(_raise, error))
                    continue
                if waits is None:
                    sent.arrived(slot, partial(slot.control.call, op, **words))
                else:
                    sent.add(slot, waits)
            while sent:
                if not sent.look(_WATCH_S):
                    watch(sent.slots)
        while wait(calls, _WATCH_S).not_done:
            watch(())
        answers = {}
        for done, index in calls.items():
            try:
                answers[index] = done.result()
            except ConnectionLostError:
                self._await_death()
                raise
        return answers

    def call(self, index: int, op: str, **arguments: Any) -> Any:
        """Call one slot, for a short operation.

        Raises:
            PystateError: It answered with an error, or is lost.
        """
        slot = next(slot for slot in self._slots() if slot.index == index)
        return slot.control.call(op, **arguments)

    def shut_down(
        self, slots: list[RegisteredSlot], last_word: Callable[[int, dict[str, Any]], None], *, final: bool
    ) -> None:
        """Shut slots down, and wait a little.

        Args:
            slots: The slots.
            last_word: Called with each slot and its final metrics.
            final: Whether the job has ended.
        """

        def shut_down(slot: RegisteredSlot) -> None:
            with contextlib.suppress(PystateError):  # it has ended already, as intended
                told = slot.control.call("shutdown", final=final)
                if isinstance(told, dict):
                    last_word(slot.index, told)

        wait([self._calls.submit(shut_down, slot) for slot in slots], _SHUTDOWN_S)

    def close(self) -> None:
        """Stop calling."""
        self._calls.shutdown(wait=False, cancel_futures=True)


def _raise(error: Exception) -> NoReturn:
    raise error
