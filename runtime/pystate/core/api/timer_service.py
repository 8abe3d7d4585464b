"""Time as functions see it, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Tells the time, and keeps timers: calls of `on_timer` at a time to come, for the key in hand.

    There is one timer per key and time in each domain: registering it again changes nothing. Timers are state: they are in
    checkpoints, move when the job is rescaled, and are rolled back with an epoch.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the clock, ms since 1970."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event time, ms since 1970: nothing older is expected. -2^63 where no watermark has come yet."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the clock shows `timestamp`, ms since 1970.

        Raises:
            StateError: There is no current key, or it is no integer of 64 bits.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the watermark reaches `timestamp`, ms since 1970.

        Raises:
            StateError: There is no current key, or it is no integer of 64 bits.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget the timer of the current key at `timestamp`; nothing happens where there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget the timer of the current key at `timestamp`; nothing happens where there is none."""
