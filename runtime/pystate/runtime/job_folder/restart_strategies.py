"""Flink's restart strategies as pure decisions: whether and when a failed job is restarted.

A strategy is immutable: a failure gives a decision, and the strategy after that failure. So it can be persisted, and the
next driver continues the count of the previous one. The rules are those of Flink's `RestartBackoffTimeStrategy` classes.
Times are ms since 1970, delays are ms.
"""

from __future__ import annotations

import dataclasses
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import ExecutionOptions, RuntimeExecutionMode
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions, RestartStrategyType
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.errors import (
    ConfigurationError,
    CorruptSnapshotError,
    ExternalSystemError,
    JobGraphError,
    PystateError,
    RestoreError,
    StateDeclarationError,
)
from pystate.common.text.plain_data import PlainDataError

_FATAL = (ConfigurationError, CorruptSnapshotError, JobGraphError, RestoreError, StateDeclarationError)


def is_fatal(error: PystateError) -> bool:
    """Return whether an error recurs at every start of the same program, so that no restart helps."""
    return isinstance(error, _FATAL) and not isinstance(error, ExternalSystemError)


@dataclass(frozen=True)
class RestartDecision:
    """The decision about a failure.

    Attributes:
        delay_ms: The delay before the next start; None if the job has failed for good.
        strategy: The strategy after the failure.
    """

    delay_ms: int | None
    strategy: RestartBackoffTimeStrategy


@dataclass(frozen=True)
class RestartBackoffTimeStrategy(ABC):
    """Decides about failures, one by one."""

    kind: ClassVar[RestartStrategyType]

    @abstractmethod
    def after_failure(self, now_ms: int) -> RestartDecision:
        """Decide about a failure at a time."""

    @property
    def restarts_at_all(self) -> bool:
        """Whether there is a restart after the first failure."""
        return self.after_failure(0).delay_ms is not None

    @abstractmethod
    def describe(self) -> str:
        """Return the description of the strategy."""

    def fresh(self) -> RestartBackoffTimeStrategy:
        """Return the same strategy without counted failures."""
        fields = dataclasses.fields(self)
        counters: dict[str, Any] = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
        return dataclasses.replace(self, **counters)

    @staticmethod
    def from_plain(plain: Any) -> RestartBackoffTimeStrategy:
        """Rebuild a strategy with its counts.

        Raises:
            PlainDataError: It is none.
        """
        try:
            fields = dict(plain)
            kind = RestartStrategyType(fields.pop("type"))
            strategy = next(one for one in _STRATEGIES if one.kind is kind)
            if "failures" in fields:
                fields["failures"] = tuple(map(int, fields["failures"]))
            return strategy(**fields)
        except (ValueError, TypeError, KeyError) as error:
            message = f"is no restart strategy: {error!r}"
            raise PlainDataError(message) from error

    def to_plain(self) -> dict[str, Any]:
        """Return the strategy as plain data."""
        return {"type": self.kind.value, **dataclasses.asdict(self)}


@dataclass(frozen=True)
class NoRestartBackoffTimeStrategy(RestartBackoffTimeStrategy):
    """Never restarts."""

    kind: ClassVar[RestartStrategyType] = RestartStrategyType.NONE

    def after_failure(self, now_ms: int) -> RestartDecision:
        """Fail the job."""
        return RestartDecision(None, self)

    def describe(self) -> str:
        """Return the description of the strategy."""
        return "no restarts"


@dataclass(frozen=True)
class FixedDelayRestartBackoffTimeStrategy(RestartBackoffTimeStrategy):
    """Restarts a number of times, each time after the same delay."""

    kind: ClassVar[RestartStrategyType] = RestartStrategyType.FIXED_DELAY

    max_attempts: int
    delay_ms: int
    attempts: int = 0

    def after_failure(self, now_ms: int) -> RestartDecision:
        """Count the failure."""
        after = dataclasses.replace(self, attempts=self.attempts + 1)
        return RestartDecision(self.delay_ms if after.attempts <= self.max_attempts else None, after)

    def describe(self) -> str:
        """Return the description of the strategy."""
        return f"{self.max_attempts} restarts, {self.delay_ms} ms after each failure"


@dataclass(frozen=True)
class FailureRateRestartBackoffTimeStrategy(RestartBackoffTimeStrategy):
    """Restarts after a fixed delay as long as the number of failures in an interval doesn't exceed a limit.

    Attributes:
        failures: The times of the last failures, at most one more than may be in an interval.
    """

    kind: ClassVar[RestartStrategyType] = RestartStrategyType.FAILURE_RATE

    max_failures_per_interval: int
    interval_ms: int
    delay_ms: int
    failures: tuple[int, ...] = ()

    def after_failure(self, now_ms: int) -> RestartDecision:
        """Fail the job if the failures in the interval exceed the limit."""
        failures = (*self.failures, now_ms)[-(self.max_failures_per_interval + 1) :]
        after = dataclasses.replace(self, failures=failures)
        too_many = len(failures) > self.max_failures_per_interval and now_ms - failures[0] <= self.interval_ms
        return RestartDecision(None if too_many else self.delay_ms, after)

    def describe(self) -> str:
        """Return the description of the strategy."""
        return (
            f"restarts {self.delay_ms} ms after each failure, as long as there are at most {self.max_failures_per_interval} "
            f"within {self.interval_ms} ms"
        )


def _offset(bound_ms: int) -> int:
    return random.randint(-bound_ms, bound_ms)  # noqa: S311 - spreads restarts over time, keeps no secret


@dataclass(frozen=True)
class ExponentialDelayRestartBackoffTimeStrategy(RestartBackoffTimeStrategy):
    """Increases the delay with each failure, and resets it once the job has run stably for a while.

    Attributes:
        attempts: Restarts since the backoff was reset.
        next_restart_ms: When the last restart was due.
    """

    kind: ClassVar[RestartStrategyType] = RestartStrategyType.EXPONENTIAL_DELAY

    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float
    attempts_before_reset_backoff: int
    attempts: int = 0
    next_restart_ms: int = 0

    def after_failure(self, now_ms: int, jitter: Callable[[int], int] = _offset) -> RestartDecision:
        """Count the failure.

        Args:
            now_ms: When it happened.
            jitter: Returns a random number between minus and plus its argument.
        """
        well = now_ms - self.next_restart_ms >= self.reset_backoff_threshold_ms
        attempts = 0 if well else self.attempts
        if attempts >= self.attempts_before_reset_backoff:
            return RestartDecision(None, self)
        delay_ms = self._backoff(attempts, jitter)
        after = dataclasses.replace(self, attempts=attempts + 1, next_restart_ms=now_ms + delay_ms)
        return RestartDecision(delay_ms, after)

    def _backoff(self, attempts: int, jitter: Callable[[int], int]) -> int:
        try:
            grown = min(self.initial_backoff_ms * self.backoff_multiplier**attempts, float(self.max_backoff_ms))
        except OverflowError:
            grown = float(self.max_backoff_ms)
        jittered = int(grown) + jitter(int(grown * self.jitter_factor))
        return max(self.initial_backoff_ms, min(jittered, self.max_backoff_ms))

    def describe(self) -> str:
        """Return the description of the strategy."""
        return (
            f"restarts after {self.initial_backoff_ms} ms, then each time {self.backoff_multiplier:g} times as long, "
            f"up to {self.max_backoff_ms} ms"
        )


_STRATEGIES: tuple[type[RestartBackoffTimeStrategy], ...] = (
    NoRestartBackoffTimeStrategy,
    FixedDelayRestartBackoffTimeStrategy,
    FailureRateRestartBackoffTimeStrategy,
    ExponentialDelayRestartBackoffTimeStrategy,
)


def restart_strategy_type(configuration: Configuration) -> RestartStrategyType:
    """Return the type of the effective strategy.

    Where none is set, a job with checkpointing gets exponential-delay, one without is not restarted (Flink 2.x,
    `RestartBackoffTimeStrategyFactoryLoader`).
    """
    chosen = configuration.get(RestartStrategyOptions.RESTART_STRATEGY)
    if chosen is not None:
        return chosen
    return RestartStrategyType.EXPONENTIAL_DELAY if is_checkpointing_enabled(configuration) else RestartStrategyType.NONE


def restart_strategy(configuration: Configuration) -> RestartBackoffTimeStrategy:
    """Return the effective strategy, see `restart_strategy_type`.

    Raises:
        ConfigurationError: The initial backoff is above the highest one.
    """
    get, options = configuration.get, RestartStrategyOptions
    chosen = restart_strategy_type(configuration)
    if chosen is RestartStrategyType.NONE:
        return NoRestartBackoffTimeStrategy()
    if chosen is RestartStrategyType.FIXED_DELAY:
        return FixedDelayRestartBackoffTimeStrategy(
            max_attempts=get(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS),
            delay_ms=get(options.RESTART_STRATEGY_FIXED_DELAY_DELAY),
        )
    if chosen is RestartStrategyType.FAILURE_RATE:
        return FailureRateRestartBackoffTimeStrategy(
            max_failures_per_interval=get(options.RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL),
            interval_ms=get(options.RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL),
            delay_ms=get(options.RESTART_STRATEGY_FAILURE_RATE_DELAY),
        )
    initial = get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF)
    highest = get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF)
    if initial > highest:
        key = options.RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF.key
        message = f"The initial backoff ({initial} ms) is above the maximum backoff ({highest} ms)."
        raise ConfigurationError(
            message, where=key, hint=f"raise {options.RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF.key}"
        )
    return ExponentialDelayRestartBackoffTimeStrategy(
        initial_backoff_ms=initial,
        max_backoff_ms=highest,
        backoff_multiplier=get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER),
        reset_backoff_threshold_ms=get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD),
        jitter_factor=get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_JITTER_FACTOR),
        attempts_before_reset_backoff=get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS),
    )


def restart_warnings(configuration: Configuration) -> list[str]:
    """Return warnings about restarts of a job without checkpoints."""
    if is_checkpointing_enabled(configuration):
        return []
    savepoint = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    start = "from nothing" if savepoint is None else f"at the savepoint the job was started from, {savepoint}"
    restarts = restart_strategy(configuration).restarts_at_all
    failure = f"a restart begins {start}" if restarts else f"a failed job is not restarted; run again it begins {start}"
    is_batch = configuration.get(ExecutionOptions.RUNTIME_MODE) is RuntimeExecutionMode.BATCH
    why = "there are none in BATCH mode" if is_batch else "execution.checkpointing.interval is not set"
    return [f"checkpointing is off ({why}): {failure}"]
