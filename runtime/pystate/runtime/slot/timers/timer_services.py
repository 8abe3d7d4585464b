"""The timer services passed to functions."""

from __future__ import annotations

from typing import NoReturn

from pystate.common.errors import StateError
from pystate.core.api.timer_service import TimerService
from pystate.runtime.slot.event_time.chain_time import ChainTimeReader
from pystate.runtime.slot.timers.internal_timer_service import InternalTimerService

USER_TIMERS = "user-timers"
"""The name of the process function timers' service, as in Flink."""


class SimpleTimerService(TimerService):
    """The timers of the current key, in the void namespace (Flink's SimpleTimerService).

    Args:
        service: Stores the timers.
    """

    def __init__(self, service: InternalTimerService) -> None:
        self._service = service

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        """Return the current watermark."""
        return self._service.current_watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a processing-time timer."""
        self._service.register_processing_time_timer(None, timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register an event-time timer."""
        self._service.register_event_time_timer(None, timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer."""
        self._service.delete_processing_time_timer(None, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer."""
        self._service.delete_event_time_timer(None, timestamp)


class UnkeyedTimerService(ChainTimeReader, TimerService):
    """Provides the time for non-keyed streams; timers are rejected, as in Flink."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Reject the timer."""
        self._refuse()

    def register_event_time_timer(self, timestamp: int) -> None:
        """Reject the timer."""
        self._refuse()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Reject the timer."""
        self._refuse()

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Reject the timer."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        message = "Timers are for keyed streams only: a timer belongs to a key."
        raise StateError(message, hint="put key_by(...) before process(), and use a KeyedProcessFunction")
