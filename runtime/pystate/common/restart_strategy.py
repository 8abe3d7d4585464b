"""Restart strategies as objects. That of a job is set by `restart-strategy.type` and its options, as in Flink 2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """The base of restart strategy configurations."""

    @abstractmethod
    def get_description(self) -> str:
        """Return a description."""


class RestartStrategies:
    """Factory of restart strategy configurations."""

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job isn't restarted."""

        def get_description(self) -> str:
            """Return a description."""
            return "The job is not restarted."

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The configured strategy applies."""

        def get_description(self) -> str:
            """Return a description."""
            return "The job is restarted as the configuration says."

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A fixed number of restarts with a fixed delay.

        Attributes:
            restart_attempts: How many.
            delay_between_attempts_interval: How long a job waits.
        """

        restart_attempts: int = 0
        delay_between_attempts_interval: timedelta = timedelta(0)

        def get_restart_attempts(self) -> int:
            """Return how many restarts there are."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return how long a job waits before each."""
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            """Return a description."""
            return f"The job is restarted {self.restart_attempts} times, each after {self.delay_between_attempts_interval}."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts until the failure rate is exceeded.

        Attributes:
            max_failure_rate: How many failures an interval may have.
            failure_interval: The interval.
            delay_between_attempts_interval: How long a job waits before each restart.
        """

        max_failure_rate: int = 0
        failure_interval: timedelta = timedelta(0)
        delay_between_attempts_interval: timedelta = timedelta(0)

        def get_max_failure_rate(self) -> int:
            """Return the maximum number of failures per interval."""
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            """Return the interval."""
            return self.failure_interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return how long a job waits before each restart."""
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            """Return a description."""
            return (
                f"The job is restarted after {self.delay_between_attempts_interval}, until it fails more than "
                f"{self.max_failure_rate} times within {self.failure_interval}."
            )

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Return the strategy that never restarts: `restart-strategy.type: none`."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Return the strategy that uses the configured one."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Return `restart-strategy.type: fixed-delay`; the delay is in ms."""
        delay = timedelta(milliseconds=delay_between_attempts)
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Return `restart-strategy.type: failure-rate`; both intervals are in ms."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, timedelta(milliseconds=failure_interval), timedelta(milliseconds=delay_interval)
        )
