"""Limits the number of concurrent requests."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """A fair semaphore like `asyncio.Semaphore`, with a non-blocking acquire.

    Args:
        most: The maximum number of turns taken at a time.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Take a turn if one is free."""
        if not self._left:
            return False
        self._left -= 1
        return True

    async def take(self) -> None:
        """Wait for a turn."""
        if self.take_now():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()  # it came too late
            raise

    def give(self) -> None:
        """Give a turn back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._left += 1
