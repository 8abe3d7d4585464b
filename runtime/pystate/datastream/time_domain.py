"""The two kinds of time, under PyFlink's module name."""

from pystate.core.api.timer_service import TimeDomain

__all__ = ["TimeDomain"]
