"""The settings of states with a time to live, and their counters for the clean-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pystate.core.api.state_ttl import StateTtlConfig


@dataclass(frozen=True)
class TtlSettings:
    """The time-to-live settings of one state.

    A value that was last accessed at t has expired once the clock shows t + millis.

    Attributes:
        millis: How long a value lives after its last access.
        refresh_on_read: Whether reads count as accesses.
        show_expired: Whether a value that has expired is returned by the access that removes it.
        clock: The time, ms since 1970.
    """

    millis: int
    refresh_on_read: bool
    show_expired: bool
    clock: Callable[[], int]

    @staticmethod
    def of(config: StateTtlConfig, clock: Callable[[], int]) -> TtlSettings:
        """Return the settings of a configuration."""
        return TtlSettings(
            config.get_ttl().to_milliseconds(),
            config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            clock,
        )


class TtlWork(NamedTuple):
    """The numbers of accesses and written entries of a state since the last clean-up."""

    accesses: int
    writes: int


class TtlState:
    """The base of states with a time to live, which count in `_accesses` and `_writes`."""

    __slots__ = ()

    _accesses: int
    _writes: int

    def take_work(self) -> TtlWork:
        """Return and reset the counts since the last call."""
        work = TtlWork(self._accesses, self._writes)
        self._accesses = self._writes = 0  # type: ignore[misc]  # the classes have the slots: two bases can't both have any
        return work
