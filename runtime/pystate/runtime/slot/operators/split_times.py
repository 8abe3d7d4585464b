"""Event time per split of a source: the source's event time is that of the slowest split (Flink's per-split outputs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK


class _Split:
    __slots__ = ("heard", "highest", "seen", "waited_for")

    def __init__(self, heard: int, *, waited_for: bool) -> None:
        self.highest = MIN_WATERMARK
        self.heard = heard
        self.seen = False
        self.waited_for = waited_for


class SplitTimes:
    """The event times of splits for one assigner in one subtask.

    Args:
        idle_timeout_ms: After this time without elements a split is idle; None for never.
        clock: Returns ms since 1970.
    """

    def __init__(self, idle_timeout_ms: int | None, clock: Callable[[], int]) -> None:
        self._timeout_ms = idle_timeout_ms
        self._clock = clock
        self._splits: dict[str, _Split] = {}
        self._slowest = MIN_WATERMARK

    def set(self, splits: Mapping[str, bool]) -> None:
        """Set the active splits.

        Args:
            splits: By name: whether to wait for a split before its first element.
        """
        now, before = self._clock(), self._splits
        self._splits = {name: before.get(name) or _Split(now, waited_for=waited) for name, waited in splits.items()}
        for name, waited in splits.items():
            self._splits[name].waited_for = waited

    def keep(self, name: str | None, highest: int, *, seen: bool) -> None:
        """Store the highest timestamp of a split; ignored if the split was removed."""
        split = self._splits.get(name) if name is not None else None
        if split is not None:
            split.highest, split.seen = highest, seen

    def of(self, name: str) -> tuple[int, bool]:
        """Return the highest timestamp of a split, and whether it has had elements since the last `finish`."""
        split = self._splits[name]
        return split.highest, split.seen

    def highest(self) -> int:
        """Return the highest timestamp of the slowest split, ms since 1970; it never decreases."""
        active = [split.highest for split in self._active()]
        if active:
            self._slowest = max(self._slowest, min(active))
        return self._slowest

    @property
    def are_idle(self) -> bool:
        """Whether all splits are idle."""
        return next(self._active(), None) is None

    def next_idle(self) -> int | None:
        """Return when the next split becomes idle, ms since 1970; None for never."""
        if self._timeout_ms is None:
            return None
        now = self._clock()
        heard = [now if split.seen else split.heard for split in self._active()]
        return min(heard) + self._timeout_ms if heard else None

    def finish(self) -> None:
        """Store when the splits last had elements."""
        now = self._clock()
        for split in self._splits.values():
            if split.seen:
                split.heard, split.seen = now, False

    def _active(self) -> Iterator[_Split]:
        now, timeout = self._clock(), self._timeout_ms
        for split in self._splits.values():
            idle = timeout is not None and not split.seen and now - split.heard >= timeout
            if not idle and (split.waited_for or split.highest > MIN_WATERMARK):
                yield split
