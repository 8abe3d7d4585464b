"""What an operation that goes on in the background will give: PyFlink's CompletableFuture, over Python's own futures."""

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
        """Give up waiting; the operation continues. Returns whether nobody had its result yet."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether it was given up."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether there is a result, or an error, or it was given up."""
        return self._future.done()

    def result(self) -> T:
        """Wait for the operation's end, and return what it gives.

        Raises:
            Exception: What the operation failed of.
        """
        value = self._future.result()
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """Return what the operation has failed of by now; None if it hasn't."""
        return self._future.exception() if self._future.done() and not self._future.cancelled() else None


def completed(value: T) -> CompletableFuture[T]:
    """Return one that has its result."""
    future: Future[T] = Future()
    future.set_result(value)
    return CompletableFuture(future)
