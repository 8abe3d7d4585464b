"""The states of panes, which windows that overlap share: what their names say. See `docs/snapshot-format.md`.

A pane is as long as the windows' slide, and is in as many windows as their size has slides. Its accumulators are whole
numbers, of which any order of merging makes the same. So whoever reads the state can make windows of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pystate.common.errors import CorruptSnapshotError

PANE_CONTENTS = "pane-contents"
"""What the names of states of panes begin with."""

_MERGES: dict[str, Callable[[int, int], int]] = {"count": operator.add, "sum": operator.add, "min": min, "max": max}


@dataclass(frozen=True)
class PaneState:
    """A state of panes.

    Attributes:
        kind: What accumulators are: "count", "sum", "min" or "max".
        size: Of the windows, ms; a multiple of the slide.
        slide: Of the windows, and the length of a pane, ms.
    """

    kind: str
    size: int
    slide: int

    @property
    def name(self) -> str:
        """The state's name."""
        return f"{PANE_CONTENTS}-{self.kind}-{self.size}-{self.slide}"

    @property
    def merge(self) -> Callable[[int, int], int]:
        """What makes one accumulator of two."""
        return _MERGES[self.kind]

    @staticmethod
    def of(name: str) -> PaneState | None:
        """Return what a state's name says; None for a state that isn't of panes.

        Raises:
            CorruptSnapshotError: The name begins as that of a state of panes does, and says something else.
        """
        if not name.startswith(f"{PANE_CONTENTS}-"):
            return None
        kind, *numbers = name.removeprefix(f"{PANE_CONTENTS}-").split("-")
        if kind in _MERGES and len(numbers) == 2 and all(one.isdecimal() for one in numbers):
            size, slide = map(int, numbers)
            if slide and size > slide and size % slide == 0:
                return PaneState(kind, size, slide)
        message = f"{name!r} is no name of a state of panes that this version knows."
        raise CorruptSnapshotError(message)

    def due(self, start: int, watermark: int) -> int | None:
        """Return when the next window of a pane fires; None if all are already passed by the watermark.

        Args:
            start: Where the pane begins.
            watermark: The event time.
        """
        number = max(1, (watermark + 1 - start) // self.slide + 1)
        return None if number * self.slide > self.size else start + number * self.slide - 1

    def windows(self, start: int, due: int) -> Iterator[tuple[int, int]]:
        """Iterate over the windows of a pane that haven't fired, as (start, end).

        Args:
            start: Where the pane begins.
            due: When its next window fires, which is the time of its timer.
        """
        return ((end - self.size, end) for end in range(due + 1, start + self.size + 1, self.slide))
