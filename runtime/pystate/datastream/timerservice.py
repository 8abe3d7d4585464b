"""Timers, under PyFlink's module name."""

from pystate.core.api.timer_service import TimerService

__all__ = ["TimerService"]
