"""The names of the states of windows and of panes, which are part of the snapshot format: see `docs/snapshot-format.md`.

A pane is as long as the windows' slide, and belongs to size / slide windows. Its accumulators are integers, for which the
order of merging doesn't matter. So readers of the state can compute windows from it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pystate.common.errors import CorruptSnapshotError

WINDOW_CONTENTS = "window-contents"
"""The name of the state with the contents of windows, as in Flink."""

WINDOW_TIMERS_STATE = "_timer_state/event_window-timers"
"""The timers of windows by event time."""

MERGING_WINDOW_SET = "merging-window-set"
"""The state of windows that merge: the windows of a key, and under which windows their contents are, as in Flink."""


PANE_CONTENTS = "pane-contents"
"""The prefix of the names of states of panes."""

_MERGES: dict[str, Callable[[int, int], int]] = {"count": operator.add, "sum": operator.add, "min": min, "max": max}


@dataclass(frozen=True)
class PaneState:
    """The description of a state of panes.

    Attributes:
        kind: The aggregation: "count", "sum", "min" or "max".
        size: The size of the windows, ms; a multiple of the slide.
        slide: The slide of the windows, and the length of a pane, ms.
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
        """The function that merges two accumulators."""
        return _MERGES[self.kind]

    @staticmethod
    def of(name: str) -> PaneState | None:
        """Parse the name of a state; None for a state that isn't of panes.

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
        """Return when the next window of a pane fires; None if the watermark has passed all of them.

        Args:
            start: The start of the pane.
            watermark: The event time.
        """
        number = max(1, (watermark + 1 - start) // self.slide + 1)
        return None if number * self.slide > self.size else start + number * self.slide - 1

    def windows(self, start: int, due: int) -> Iterator[tuple[int, int]]:
        """Iterate over the windows of a pane that haven't fired, as (start, end).

        Args:
            start: The start of the pane.
            due: When its next window fires, which is the time of its timer.
        """
        return ((end - self.size, end) for end in range(due + 1, start + self.size + 1, self.slide))
