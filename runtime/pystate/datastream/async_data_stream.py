"""Asynchronous I/O: `AsyncDataStream`, with PyFlink's names."""

from __future__ import annotations

import inspect
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.time import Duration, Time
from pystate.common.type_info import TypeInformation
from pystate.core.api.async_function import AsyncFunction, AsyncFunctionDescriptor
from pystate.core.api.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy, NoRetryStrategy
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import OneInputTransformation
from pystate.core.api.window.triggers import milliseconds
from pystate.datastream.data_stream import DataStream
from pystate.datastream.wrong_functions import shown

__all__ = ["AsyncDataStream"]

_ORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED
_UNORDERED = AsyncFunctionDescriptor.OutputMode.UNORDERED


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream, keyed or not. It runs in the slots; elements keep their timestamps.

    Parameters of all methods:
        data_stream: The stream.
        async_function: The function.
        timeout: The timeout of an element, including retries; 0 for none.
        capacity: The maximum number of elements in flight per subtask.
        output_type: The type of the results, None for untyped.

    All raise JobGraphError if an argument is invalid.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they complete, within an epoch."""
        return _waiting(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, _UNORDERED)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they complete, within an epoch; calls are retried by the strategy."""
        return _waiting(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, _UNORDERED)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of the elements of a subtask."""
        return _waiting(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, _ORDERED)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of the elements of a subtask; calls are retried by the strategy."""
        return _waiting(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, _ORDERED)


def _waiting(
    stream: DataStream,
    function: AsyncFunction[Any, Any],
    timeout: Time | Duration,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: TypeInformation | None,
    mode: AsyncFunctionDescriptor.OutputMode,
) -> DataStream:
    if not isinstance(stream, DataStream):
        message = f"AsyncDataStream takes a stream, not {shown(stream)}."
        raise JobGraphError(message)
    _check(function, milliseconds(timeout, "The timeout"), strategy, capacity)
    descriptor = AsyncFunctionDescriptor(function, timeout, capacity, strategy, mode)
    step = OneInputTransformation(
        "async wait operator", (stream.transformation,), output_type, kind=OperatorKind.ASYNC_WAIT, function=descriptor
    )
    return stream.followed_by(step)


def _check(function: Any, timeout_ms: int, strategy: Any, capacity: Any) -> None:
    if not isinstance(function, AsyncFunction):
        message = f"AsyncDataStream takes an AsyncFunction, not {shown(function)}."
        raise JobGraphError(message)
    cls = type(function).__name__
    if not inspect.iscoroutinefunction(function.async_invoke):
        message = f"Method 'async_invoke' of class {cls!r} should be declared as 'async def'."
        raise JobGraphError(message)
    if isinstance(function, (CheckpointedFunction, ListCheckpointed, CheckpointListener)):
        message = f"{cls} is an AsyncFunction, which takes no part in checkpoints itself."
        raise JobGraphError(message, hint="keep state in a process function before it or after it")
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        message = f"The capacity of an AsyncFunction is a number from 1 on, not {capacity!r}."
        raise JobGraphError(message)
    if not isinstance(strategy, AsyncRetryStrategy):
        message = f"A retry strategy is an AsyncRetryStrategy, not {strategy!r}."
        raise JobGraphError(message, hint="AsyncRetryStrategy.fixed_delay(...)")
    if strategy.get_retry_predicate() is None:
        message = f"{type(strategy).__name__}.get_retry_predicate() returns None."
        raise JobGraphError(message)
    if not isinstance(strategy, NoRetryStrategy) and timeout_ms <= 0:
        message = "A timeout above 0 is needed where calls are made again."
        raise JobGraphError(message)
