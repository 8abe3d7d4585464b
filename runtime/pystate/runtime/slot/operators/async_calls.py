"""Runs the calls of an `AsyncFunction` on their own event loop, with timeouts, retries and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from pystate.common.errors import UserFunctionError
from pystate.core.api.async_function import AsyncFunctionDescriptor

STOP_TIMEOUT_S = 5.0
"""How long closing a subtask waits for calls to handle their cancellation."""


class AsyncCall:
    """The pending calls for one element.

    Attributes:
        element: The element.
        timestamp: Its timestamp, ms since 1970; None for none.
        attempts: How often the function has been called with it.
        settled: Outcomes are ignored from now on: there is a result, or it is no longer wanted.
        results: The results; None while unknown.
    """

    __slots__ = ("attempts", "element", "results", "retry", "settled", "task", "timeout", "timestamp")

    def __init__(self, element: Any, timestamp: int | None) -> None:
        self.element = element
        self.timestamp = timestamp
        self.attempts = 0
        self.settled = False
        self.results: list[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.timeout: asyncio.TimerHandle | None = None
        self.retry: asyncio.TimerHandle | None = None

    def settle(self) -> None:
        """Ignore all further outcomes; called on the loop's thread."""
        self.settled = True
        for waiting in (self.timeout, self.retry):
            if waiting is not None:
                waiting.cancel()


class AsyncCalls:
    """The calls of one subtask. `begin`, `cancel` and `stop` are called by the subtask's threads, all else by the loop.

    Loop and thread start with the first call.

    Args:
        descriptor: The program's settings.
        completed: Called on the loop's thread with the calls that got results in one iteration of the loop.
        failed: Called on the loop's thread with a call and its error.
    """

    def __init__(
        self,
        descriptor: AsyncFunctionDescriptor,
        completed: Callable[[list[AsyncCall]], None],
        failed: Callable[[AsyncCall, BaseException], None],
    ) -> None:
        function, strategy = descriptor.async_function, descriptor.async_retry_strategy
        predicate = strategy.get_retry_predicate()
        self._function = function
        self._strategy = strategy
        self._retry_result = predicate.result_predicate()
        self._retry_exception = predicate.exception_predicate()
        self._timeout_s = descriptor.timeout_ms / 1000
        self._completed = completed
        self._failed = failed
        self._begun: deque[AsyncCall] = deque()
        self._is_woken = False
        self._settled: list[AsyncCall] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the loop runs."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, call: AsyncCall) -> None:
        """Schedule a call of the function with an element."""
        self._begun.append(call)
        if not self._is_woken:  # waking the loop takes longer than everything else
            self._is_woken = True
            self._tell_loop(self._start_begun)

    def cancel(self, calls: Iterable[AsyncCall]) -> None:
        """Cancel calls; their outcomes are ignored."""
        given_up = list(calls)
        for call in given_up:
            call.settled = True
        if self._thread is not None:
            self._tell_loop(self._give_up, given_up)

    def stop(self) -> bool:
        """Cancel all calls, and stop the loop and its thread.

        Returns:
            Whether they have stopped; not if a function blocks the loop, or ignores its cancellation.
        """
        if self._thread is not None and self._loop is not None:
            self._tell_loop(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)
        return not self.is_running

    def _tell_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="async-wait", daemon=True)
            self._thread.start()
        with contextlib.suppress(RuntimeError):  # it is closed, which the waiting thread detects
            self._loop.call_soon_threadsafe(call, *arguments)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _start_begun(self) -> None:
        self._is_woken = False  # first: later calls wake the loop again
        while self._begun:
            call = self._begun.popleft()
            if not call.settled:
                if self._timeout_s > 0:
                    call.timeout = asyncio.get_running_loop().call_later(self._timeout_s, self._time_out, call)
                self._attempt(call)

    def _attempt(self, call: AsyncCall) -> None:
        call.attempts += 1
        call.task = asyncio.get_running_loop().create_task(self._invoke(call))

    async def _invoke(self, call: AsyncCall) -> None:
        try:
            results = await self._function.async_invoke(call.element)
            if not call.settled and not self._is_repeated(call, self._retry_result, results):
                self._settle(call, results)
        except BaseException as error:
            if not call.settled:
                self._raised(call, error)

    def _raised(self, call: AsyncCall, error: BaseException) -> None:
        try:
            if not isinstance(error, Exception) or not self._is_repeated(call, self._retry_exception, error):
                call.settle()
                self._failed(call, error)
        except Exception as own_error:  # raised by a predicate
            call.settle()
            self._failed(call, own_error)

    def _is_repeated(self, call: AsyncCall, predicate: Callable[[Any], bool] | None, outcome: Any) -> bool:
        """Schedule another attempt if the retry strategy asks for it; return whether it does."""
        strategy = self._strategy
        if predicate is None or outcome is None or not predicate(outcome) or not strategy.can_retry(call.attempts):
            return False
        backoff_s = strategy.get_backoff_time_millis(call.attempts) / 1000
        call.retry = asyncio.get_running_loop().call_later(backoff_s, self._attempt, call)
        return True

    def _settle(self, call: AsyncCall, results: Any) -> None:
        if results is None or not isinstance(results, Iterable):
            cls = type(self._function).__name__
            message = f"The result of AsyncFunction is a list, not {results!r}: see async_invoke() and timeout() of {cls}."
            raise UserFunctionError(message)
        call.results = list(results)
        call.settle()
        if not self._settled:
            asyncio.get_running_loop().call_soon(self._tell)
        self._settled.append(call)

    def _tell(self) -> None:
        settled, self._settled = self._settled, []
        self._completed(settled)

    def _time_out(self, call: AsyncCall) -> None:
        if call.settled:
            return
        call.settle()
        if call.task is not None:
            call.task.cancel()
        try:
            self._settle(call, self._function.timeout(call.element))
        except BaseException as error:
            self._failed(call, error)

    def _give_up(self, calls: list[AsyncCall]) -> None:
        for call in calls:
            call.settle()
            if call.task is not None:
                call.task.cancel()
