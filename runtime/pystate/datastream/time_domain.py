"""The two kinds of time, under the module name PyFlink has them."""

from pystate.core.api.time_domain import TimeDomain

__all__ = ["TimeDomain"]
