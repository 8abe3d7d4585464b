"""The result of a background operation: PyFlink's CompletableFuture, based on Python's futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """The result of an operation, once it has one.

    Args:
        future: Gets the result.
        convert: Makes of it what `result` returns; None for itself.
    """

    def __init__(self, future: Future[Any], convert: Callable[[Any], T] | None = None) -> None:
        self._future = future
        self._convert = convert

    def cancel(self) -> bool:
        """Give up waiting; the operation continues. Returns whether the result was not available yet."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether it was given up."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether it has a result or an error, or was cancelled."""
        return self._future.done()

    def result(self) -> T:
        """Wait for the operation's end, and return its result.

        Raises:
            Exception: The exception of the operation.
        """
        value = self._future.result()
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """Return the operation's exception; None if it has not failed so far."""
        return self._future.exception() if self._future.done() and not self._future.cancelled() else None


def completed(value: T) -> CompletableFuture[T]:
    """Return a future that is completed with a result."""
    future: Future[T] = Future()
    future.set_result(value)
    return CompletableFuture(future)
