"""The operator of an `AsyncFunction` (Flink's AsyncWaitOperator).

Calls run on a thread with an event loop; results are emitted by the thread that runs the chain, so that downstream functions
are called as usual. An epoch ends after its calls: no call is pending at a barrier, and watermarks overtake no element.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from pystate.common.errors import ControlError, JobExecutionError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.async_function import AsyncFunctionDescriptor
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.async_calls import AsyncCall, AsyncCalls
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output

_LOOK_S = 1.0
"""How often a thread that waits for results checks whether the loop still runs."""


class PendingCalls:
    """The elements of one subtask whose calls are pending.

    Args:
        descriptor: The program's settings.
        emit: Receives the results.
        time: The chain's time.
        where: The operator's name in errors.
    """

    def __init__(self, descriptor: AsyncFunctionDescriptor, emit: Emit, time: ChainTime, where: str) -> None:
        self._capacity = descriptor.capacity
        self._is_ordered = descriptor.output_mode is AsyncFunctionDescriptor.OutputMode.ORDERED
        self._emit = emit
        self._time = time
        self._where = where
        self._changed = threading.Condition()
        self._under_way: dict[AsyncCall, None] = {}  # in the order of the elements
        self._ready: deque[AsyncCall] = deque()  # in the order of the results; unused for ordered results
        self._error: BaseException | None = None
        self._is_interrupted = False
        self._calls = AsyncCalls(descriptor, self._completed, self._failed)

    def process_element(self, element: Any) -> None:
        """Call the function with an element; first emit available results, and wait while too many calls are pending."""
        self._hand_on()
        while len(self._under_way) >= self._capacity:
            self._await_ready()
            self._hand_on()
        call = AsyncCall(element, self._time.timestamp)
        self._under_way[call] = None
        self._calls.begin(call)

    def drain(self) -> None:
        """Wait for all pending calls, and emit their results.

        Raises:
            ControlError: The epoch is aborted, see `interrupt`.
            JobExecutionError: The event loop has died.
            Exception: The function's error.
        """
        self._hand_on()
        while self._under_way:
            self._await_ready()
            self._hand_on()

    def interrupt(self) -> None:
        """Make threads that wait for calls fail, from another thread; lasts until the epoch is rolled back."""
        with self._changed:
            self._is_interrupted = True
            self._changed.notify_all()

    def roll_back_epoch(self) -> None:
        """Cancel and drop all calls."""
        with self._changed:
            given_up = list(self._under_way)
            self._under_way.clear()
            self._ready.clear()
            self._error = None
            self._is_interrupted = False
        if given_up:
            self._calls.cancel(given_up)

    def close(self) -> None:
        """Stop the event loop and its thread, even if calls hang."""
        self.interrupt()
        with self._changed:
            for call in self._under_way:
                call.settled = True
        if not self._calls.stop():
            message = f"Calls of {self._where} don't heed that they are cancelled; they end with their process."
            print(message, file=sys.stderr)  # noqa: T201 - the slot's log

    def _is_ready(self) -> bool:
        if self._is_ordered:
            first = next(iter(self._under_way), None)
            return first is not None and first.results is not None
        return bool(self._ready)

    def _await_ready(self) -> None:
        with self._changed:
            while not self._is_ready() and self._error is None:
                if self._is_interrupted:
                    message = "The calls under way are given up with their epoch."
                    raise ControlError(message, where=self._where)
                if not self._calls.is_running:
                    message = "The event loop of an AsyncFunction has ended: something has stopped it."
                    raise JobExecutionError(message, where=self._where, hint="don't stop the running loop in a function")
                self._changed.wait(_LOOK_S)

    def _hand_on(self) -> None:
        """Emit the available results, each with the timestamp of its element."""
        if self._error is not None:
            raise self._error
        time = self._time
        before = time.timestamp
        try:
            while self._is_ready():
                call = next(iter(self._under_way)) if self._is_ordered else self._ready.popleft()
                del self._under_way[call]
                time.timestamp = call.timestamp
                for result in call.results or ():
                    self._emit(result)
        finally:
            time.timestamp = before

    def _completed(self, calls: list[AsyncCall]) -> None:
        with self._changed:
            if not self._is_ordered:
                self._ready.extend(call for call in calls if call in self._under_way)
            self._changed.notify_all()

    def _failed(self, call: AsyncCall, error: BaseException) -> None:
        with self._changed:
            if call in self._under_way:  # otherwise its epoch was rolled back meanwhile
                self._error = self._error or error
            self._changed.notify_all()


class AsyncWaitOperator(Operator):
    """Makes the asynchronous calls of an `AsyncFunction`."""

    kinds: ClassVar = (OperatorKind.ASYNC_WAIT,)
    _pending: PendingCalls | None = None

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        self._pending = PendingCalls(self.spec.function, output.emit, self._time, self._where)
        return [self._pending.process_element]

    @override
    def drain(self) -> None:
        if self._pending is not None:
            self._pending.drain()

    @override
    def interrupt(self) -> bool:
        if self._pending is not None:
            self._pending.interrupt()
        return self._pending is not None

    @override
    def roll_back_epoch(self) -> bool:
        if self._pending is not None:
            self._pending.roll_back_epoch()
        return super().roll_back_epoch()

    @override
    def close(self) -> None:
        if self._pending is not None:
            self._pending.close()
        super().close()
