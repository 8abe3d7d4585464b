"""Functions that wait for others without holding up the stream. Names are PyFlink's."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Any, Generic

from pystate.common.time import Duration, Time
from pystate.core.api.async_retry import AsyncRetryStrategy
from pystate.core.api.functions import Function, RuntimeContext
from pystate.core.api.type_variables import IN, OUT


class AsyncFunction(Function, Generic[IN, OUT]):
    """Maps an element to any number of elements by an asynchronous call; several calls may be in progress at a time.

    Calls run on an event loop, one thread per subtask. They have no keyed state.
    """

    @abstractmethod
    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the elements that replace `value`. An exception fails the task."""

    def timeout(self, value: Any) -> list[Any]:
        """Return the elements that replace `value` after the call has timed out and been cancelled.

        Raises:
            TimeoutError: Unless it is overridden: the task fails.
        """
        message = f"Async function call has timed out for input: {value}"
        raise TimeoutError(message)


class AsyncFunctionDescriptor(Function):
    """A step with an `AsyncFunction`. It is itself a function: its `open` and `close` call those of the program's function.

    Args:
        async_function: The function.
        timeout: The time limit of an element, including retries; 0 for no limit.
        capacity: The maximum number of elements in progress.
        async_retry_strategy: Whether and when calls are retried.
        output_mode: The order in which results are emitted.
    """

    class OutputMode(Enum):
        """The order in which results are emitted."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode

    @property
    def timeout_ms(self) -> int:
        """The time limit of an element, in ms; 0 or less for no limit."""
        return self.timeout.to_millis() if isinstance(self.timeout, Duration) else self.timeout.to_milliseconds()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        self.async_function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        self.async_function.close()
