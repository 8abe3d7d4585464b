"""Timers, under the module name PyFlink has them."""

from pystate.core.api.timer_service import TimerService

__all__ = ["TimerService"]
