"""Time as functions see it, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum


class TimeDomain(Enum):
    """The time domain of a timer."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Provides the current time, and registers timers for the current key.

    There is one timer per key and time in each domain: registering it again changes nothing. Timers are state: they are in
    checkpoints, move when the job is rescaled, and are rolled back with an epoch.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the current processing time, ms since 1970."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark, ms since 1970; -2^63 before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a processing-time timer for the current key at `timestamp`, ms since 1970.

        Raises:
            StateError: There is no current key, or the timestamp isn't a 64-bit integer.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Register an event-time timer for the current key at `timestamp`, ms since 1970.

        Raises:
            StateError: There is no current key, or the timestamp isn't a 64-bit integer.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the timer of the current key at `timestamp`; does nothing if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the timer of the current key at `timestamp`; does nothing if there is none."""
