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
    """One element in, any number out, by a call that may take its time; others are under way meanwhile.

    Calls run on an event loop, one thread per subtask. They have no keyed state.
    """

    @abstractmethod
    async def async_invoke(self, value: Any) -> list[Any]:
        """Return what takes the place of `value`. An exception fails the task."""

    def timeout(self, value: Any) -> list[Any]:
        """Return what takes the place of `value` where the call has taken too long; it is cancelled by then.

        Raises:
            TimeoutError: As long as nobody overrides it: the task fails.
        """
        message = f"Async function call has timed out for input: {value}"
        raise TimeoutError(message)


class AsyncFunctionDescriptor(Function):
    """What a program says of a step with an `AsyncFunction`. It has the life of a function, and opens the program's.

    Args:
        async_function: The function.
        timeout: How long an element may take, calls that are made again included; 0 for as long as it likes.
        capacity: How many elements are under way at most.
        async_retry_strategy: Whether and when calls are made again.
        output_mode: In which order results go on.
    """

    class OutputMode(Enum):
        """In which order results go on."""

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
        """How long an element may take, in ms; 0 or less for as long as it likes."""
        return self.timeout.to_millis() if isinstance(self.timeout, Duration) else self.timeout.to_milliseconds()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        self.async_function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        self.async_function.close()
