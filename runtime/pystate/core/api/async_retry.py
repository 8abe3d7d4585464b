"""Retry strategies of asynchronous calls. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic

from pystate.common.errors import JobGraphError
from pystate.core.api.type_variables import OUT

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which results and exceptions cause a retry."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate on results that decides whether to retry; None to never retry."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate on exceptions that decides whether to retry; None to never retry."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides whether and when a call is retried."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another call is allowed after this number of attempts, counted from 1."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait after this number of attempts, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicates that decide which results and exceptions cause a retry."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Return the strategy that never retries."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy that waits for the same time before each call; see `FixedDelayRetryStrategy`."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy that waits longer each time; see `ExponentialBackoffDelayRetryStrategy`."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """A pair of predicates, on results and on exceptions.

    Args:
        result_predicate: (result) -> whether to retry; None for never.
        exception_predicate: (exception) -> whether to retry; None for never.
    """

    def __init__(self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Return the first."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the second."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """Never retries."""

    def can_retry(self, current_attempts: int) -> bool:
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1: there is nothing to wait for."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return a predicate that accepts everything."""
        return RetryPredicate(None, None)


class _RetryStrategy(AsyncRetryStrategy[OUT]):
    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        self._max_attempts: int = _positive(max_attempts, "max_attempts")
        self._predicate: RetryPredicate[OUT] = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether at most `max_attempts` calls were made; `max_attempts` is the number of retries."""
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicates."""
        return self._predicate


class FixedDelayRetryStrategy(_RetryStrategy[OUT]):
    """Waits for the same time before each call.

    Args:
        max_attempts: How often a call is made again at most.
        backoff_time_millis: How long to wait, in ms.
        result_predicate: (result) -> whether to retry; None for never.
        exception_predicate: (exception) -> whether to retry; None for never.

    Raises:
        JobGraphError: A number isn't above 0.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis: int = _positive(backoff_time_millis, "backoff_time_millis")

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the time."""
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_RetryStrategy[OUT]):
    """Waits longer each time.

    Args:
        max_attempts: How often a call is made again at most.
        initial_delay: How long to wait the first time, in ms.
        max_retry_delay: How long to wait at most, in ms.
        multiplier: How many times as long as before to wait.
        result_predicate: (result) -> whether to retry; None for never.
        exception_predicate: (exception) -> whether to retry; None for never.

    Raises:
        JobGraphError: A number isn't above 0.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = _positive(initial_delay, "initial_delay")
        self._max_retry_delay = _positive(max_retry_delay, "max_retry_delay")
        self._multiplier = _positive(multiplier, "multiplier")

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait; computed for this call alone, independent of concurrent calls."""
        delay = float(self._initial_delay)
        for _ in range(current_attempts - 1):
            delay = min(delay * self._multiplier, self._max_retry_delay)
        return int(delay)


def _positive(number: Any, name: str) -> Any:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number <= 0:
        message = f"{name} of a retry strategy is a number above 0, not {number!r}."
        raise JobGraphError(message)
    return number


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
