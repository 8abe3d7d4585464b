"""Decides which spare drivers to keep, and which one a job gets; without processes or a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pystate.ops.jobmanager.spare_drivers.spare_kind import SpareKind

_QUIET_MS = 10_000
"""How long after a job's driver was started: it should not have to share the processors with a spare that gets warm."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 10_000, 600_000


class SpareState(str, Enum):
    """The state of a spare driver."""

    WARMING = "WARMING"
    READY = "READY"


@dataclass(frozen=True)
class Spare:
    """A spare driver.

    Attributes:
        spare_id: 32 hex digits.
        kind: Its kind.
        since: When it was started, or became ready; milliseconds of a monotonic clock.
        state: Its state.
    """

    spare_id: str
    kind: SpareKind
    since: int
    state: SpareState = SpareState.WARMING


@dataclass(frozen=True)
class _Reservation:
    """A spare that is wanted for one job.

    Attributes:
        kind: Its kind.
        until: When it ends.
        practises: Whether the spare practises.
    """

    kind: SpareKind
    until: int
    practises: bool


class SparePool:
    """The spares of a job manager, for the kinds of jobs that were started last.

    Besides, a spare may be reserved for one job that is to come.

    Args:
        size: The wanted number of spares.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._reserved: dict[str, _Reservation] = {}
        self._spares: dict[str, Spare] = {}
        self._recent: list[SpareKind] = []
        self._not_before = 0
        self._pause_ms = _FIRST_PAUSE_MS

    @property
    def spares(self) -> Sequence[Spare]:
        """The living spares, oldest first."""
        return tuple(self._spares.values())

    def used(self, kind: SpareKind, now: int) -> None:
        """Record that a job of a kind was started, so that spares of this kind are wanted."""
        self._recent = [kind, *(other for other in self._recent if other != kind)][: self.size]
        self._not_before = max(self._not_before, now + _QUIET_MS)

    def reserve(self, name: str, kind: SpareKind, until: int, *, practises: bool = False) -> None:
        """Want a spare of a kind at once, for the next job of that kind.

        Args:
            name: Of the reservation.
            kind: The kind.
            until: When the reservation ends if there is no such job.
            practises: Whether there is time for the spare to practise until then.
        """
        self._reserved[name] = _Reservation(kind, until, practises)

    def practises(self, kind: SpareKind) -> bool:
        """Return whether a spare of a kind practises: not if it is reserved for a job that is about to come."""
        return all(one.practises for one in self._reserved.values() if one.kind == kind)

    def release(self, name: str) -> None:
        """End a reservation, if it still holds."""
        self._reserved.pop(name, None)

    def expire(self, now: int) -> None:
        """End the reservations whose time is over."""
        self._reserved = {name: one for name, one in self._reserved.items() if now < one.until}

    @property
    def reserved(self) -> list[SpareKind]:
        """The kinds of the reservations."""
        return [one.kind for one in self._reserved.values()]

    def take(self, kind: SpareKind) -> Spare | None:
        """Take a spare of a kind, which belongs to a job from now on; None if there is none.

        It is a ready one, or one that still gets warm if it is reserved: it is further than a new driver.
        """
        found = [spare for spare in self._spares.values() if spare.kind == kind]
        reservation = next((name for name, one in self._reserved.items() if one.kind == kind), None)
        taken = next((spare for spare in found if spare.state is SpareState.READY), None)
        if taken is None and reservation is not None:
            taken = next(iter(found), None)
        if taken is None:
            return None
        if reservation is not None:
            self.release(reservation)
        return self._spares.pop(taken.spare_id)

    def added(self, spare: Spare) -> None:
        """Record a started spare."""
        self._spares[spare.spare_id] = spare

    def ready(self, spare_id: str, now: int) -> None:
        """Record that a spare is warm."""
        if spare_id in self._spares:
            self._spares[spare_id] = replace(self._spares[spare_id], state=SpareState.READY, since=now)
            self._pause_ms = _FIRST_PAUSE_MS

    def lost(self, spare_id: str, now: int) -> int | None:
        """Record that a spare ended on its own. The pause before the next one grows until one becomes ready.

        Args:
            spare_id: The id of the spare.
            now: The current time.

        Returns:
            The pause before the next one in ms; None for one that was taken or dropped.
        """
        if self._spares.pop(spare_id, None) is None:
            return None
        pause = self._pause_ms
        self._pause_ms = min(2 * pause, _LONGEST_PAUSE_MS)
        self._not_before = max(self._not_before, now + pause)
        return pause

    def drop(self, spare_id: str) -> None:
        """Remove a spare that is being ended."""
        self._spares.pop(spare_id, None)

    def surplus(self) -> list[Spare]:
        """Return spares of an unwanted kind, or in excess of their kind."""
        wanted, surplus = self._wanted(), []
        for spare in self._spares.values():
            if spare.kind in wanted:
                wanted.remove(spare.kind)
            else:
                surplus.append(spare)
        return surplus

    def missing(self) -> SpareKind | None:
        """Return the kind to start next, when it is due; None if all exist."""
        return self._lacks(self._wanted())

    def _lacks(self, wanted: list[SpareKind]) -> SpareKind | None:
        there = [spare.kind for spare in self._spares.values()]
        for kind in wanted:
            if kind not in there:
                return kind
            there.remove(kind)
        return None

    def due_in(self, now: int) -> int:
        """Return the milliseconds until a spare may be started."""
        if self._lacks(self.reserved) is not None:
            return 0
        warming = any(spare.state is SpareState.WARMING for spare in self._spares.values())
        return _QUIET_MS if warming else max(0, self._not_before - now)

    def _wanted(self) -> list[SpareKind]:
        """Return the reserved kinds, and one for each place: the latest kinds, the latest repeated if they are few."""
        kinds = self._recent
        return [*self.reserved, *(kinds[place % len(kinds)] for place in range(self.size) if kinds)]
