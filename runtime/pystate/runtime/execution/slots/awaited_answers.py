"""Answers of slots that are waited for on one thread.

A thread for each of a thousand slots would wait for the interpreter with all others when the answers come, and each that
waits wakes up every 5 ms.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Any

from pystate.runtime.execution.slots.registered_slot import RegisteredSlot

Waits = Callable[[], Any]
"""Waits for an answer and returns it."""


class AwaitedAnswers:
    """The slots that have got a call. What is left when this ends has come, or will be waited for by a thread each.

    Args:
        arrived: Called with a slot whose answer is there, and what reads it: on another thread, as it may come in pieces.
    """

    def __init__(self, arrived: Callable[[RegisteredSlot, Waits], object]) -> None:
        self.arrived = arrived
        self._selector = selectors.DefaultSelector()
        self._looked_at = time.monotonic()

    def __enter__(self) -> AwaitedAnswers:
        return self

    def __exit__(self, *_: object) -> None:
        left = [key.data for key in self._selector.get_map().values()]
        self._selector.close()
        for slot, waits in left:  # nobody else may call a slot before its answer is read
            self.arrived(slot, waits)

    def __bool__(self) -> bool:
        """Whether any answer is waited for."""
        return bool(self._selector.get_map())

    @property
    def slots(self) -> list[int]:
        """The slots that haven't answered."""
        return [key.data[0].index for key in self._selector.get_map().values()]

    def add(self, slot: RegisteredSlot, waits: Waits) -> None:
        """Wait for a slot's answer."""
        self._selector.register(slot.control.fileno(), selectors.EVENT_READ, (slot, waits))

    def look(self, seconds: float) -> bool:
        """Pass on the answers that have come, or wait for some; return False after so many seconds, answers or not."""
        for key, _ in self._selector.select(max(0.0, self._looked_at + seconds - time.monotonic())):
            self._selector.unregister(key.fd)
            self.arrived(*key.data)
        now = time.monotonic()
        if now < self._looked_at + seconds:
            return True
        self._looked_at = now
        return False
