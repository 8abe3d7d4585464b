"""Which spare drivers there are to be, and which one a job gets. Decides only: no processes, no clock of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pystate.ops.jobmanager.spare_drivers.spare_kind import SpareKind

_QUIET_MS = 10_000
"""How long after a job's driver was started: it should not have to share the processors with a spare that gets warm."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 10_000, 600_000


class SpareState(str, Enum):
    """How far a spare driver is."""

    WARMING = "WARMING"
    READY = "READY"


@dataclass(frozen=True)
class Spare:
    """A spare driver.

    Attributes:
        spare_id: 32 hex digits.
        kind: What it is good for.
        since: When it was started, or got ready; milliseconds on a clock that nobody sets.
        state: How far it is.
    """

    spare_id: str
    kind: SpareKind
    since: int
    state: SpareState = SpareState.WARMING


class SparePool:
    """The spares of a job manager, made for the kinds of jobs that were started last.

    Args:
        size: How many there are to be.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._spares: dict[str, Spare] = {}
        self._recent: list[SpareKind] = []
        self._not_before = 0
        self._pause_ms = _FIRST_PAUSE_MS

    @property
    def spares(self) -> Sequence[Spare]:
        """Those that live, the oldest first."""
        return tuple(self._spares.values())

    def used(self, kind: SpareKind, now: int) -> None:
        """Take note that a job of a kind was started, so that its like are wanted."""
        self._recent = [kind, *(other for other in self._recent if other != kind)][: self.size]
        self._not_before = max(self._not_before, now + _QUIET_MS)

    def take(self, kind: SpareKind) -> Spare | None:
        """Return a ready one of a kind, which belongs to a job from now on; None where there is none."""
        for spare in self._spares.values():
            if spare.kind == kind and spare.state is SpareState.READY:
                return self._spares.pop(spare.spare_id)
        return None

    def added(self, spare: Spare) -> None:
        """Take note of one that was started."""
        self._spares[spare.spare_id] = spare

    def ready(self, spare_id: str, now: int) -> None:
        """Take note that one is warm."""
        if spare_id in self._spares:
            self._spares[spare_id] = replace(self._spares[spare_id], state=SpareState.READY, since=now)
            self._pause_ms = _FIRST_PAUSE_MS

    def lost(self, spare_id: str, now: int) -> int | None:
        """Take note that one has ended by itself. The next one comes later each time until one gets ready.

        Args:
            spare_id: Which one.
            now: The time.

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
        """Forget one that is being ended."""
        self._spares.pop(spare_id, None)

    def surplus(self) -> list[Spare]:
        """Return those that are of no kind that is wanted, or too many of theirs."""
        wanted, surplus = self._wanted(), []
        for spare in self._spares.values():
            if spare.kind in wanted:
                wanted.remove(spare.kind)
            else:
                surplus.append(spare)
        return surplus

    def missing(self) -> SpareKind | None:
        """Return the kind that is to be started next, whenever it is time; None where all are there."""
        there = [spare.kind for spare in self._spares.values()]
        for kind in self._wanted():
            if kind not in there:
                return kind
            there.remove(kind)
        return None

    def due_in(self, now: int) -> int:
        """Return the milliseconds until one may be started."""
        warming = any(spare.state is SpareState.WARMING for spare in self._spares.values())
        return _QUIET_MS if warming else max(0, self._not_before - now)

    def _wanted(self) -> list[SpareKind]:
        """Return a kind for each place: the latest ones, the latest of all twice where there are fewer kinds than places."""
        kinds = self._recent
        return [kinds[place % len(kinds)] for place in range(self.size)] if kinds else []
