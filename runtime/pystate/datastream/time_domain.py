"""The two kinds of time, under PyFlink's module name."""

from pystate.core.api.time_domain import TimeDomain

__all__ = ["TimeDomain"]
