"""The panes in memory: for each, the accumulators by key, and when its next window fires.

A pane has one timer per key in the state, at the end of the first of its windows that hasn't fired; when that window fires,
the timer moves to the next. A pane that is only in memory has no timers: it is due at the same time for all its keys.

The table of a pane holds what was added since the pane was last written to the state. Accumulators can be merged in any
order, so the state is read only when the pane is written again or a timer fires, not per element.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from pystate.common.overrides import override
from pystate.core.snapshot.reading.window_states import PaneState
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, new_timer
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.window_tables import WindowTable, WindowTables

Window = tuple[int, int]
"""Start and end, ms; also of panes."""


class PaneTable(WindowTable):
    """One pane. `accumulators` holds the additions of the running epoch, and `stored` is None while the state has none.

    Attributes:
        pane: Its start and end.
        due: When its next window fires.
        due_kept: The same as of the last finished epoch.
    """

    __slots__ = ("_merge", "due", "due_kept", "pane")

    def __init__(self, pane: Window, due: int, merge: Callable[[Any, Any], Any], *, is_new: bool) -> None:
        super().__init__(pane, pane[1] - 1, is_new=is_new)
        self.pane = pane
        self.due = self.due_kept = due
        self.asks = False
        self._merge = merge

    @override
    def commit(self) -> None:
        self.due_kept = self.due
        kept: dict[Hashable, Any] = self.kept
        if kept:
            merge = self._merge
            for key, added in self.accumulators.items():
                before = kept.get(key)
                kept[key] = added if before is None else merge(before, added)
        else:
            self.kept = self.accumulators
        self.accumulators = {}


class PaneTables(WindowTables):
    """The panes in memory.

    Args:
        panes: The description of the panes.
        accumulators: The state of panes.
        timers: The timers of panes.
        kept_bytes: The approximate memory limit for panes of finished epochs.
    """

    def __init__(
        self, panes: PaneState, accumulators: Accumulators, timers: KeyGroupedPriorityQueue, kept_bytes: int
    ) -> None:
        super().__init__(accumulators, timers, kept_bytes)
        self._panes = panes
        self._tables: dict[Hashable, PaneTable] = {}  # type: ignore[assignment]  # of panes only
        self._fired: list[PaneTable] = []  # type: ignore[assignment]  # those whose last window has fired

    def pane(self, start: int, due: int) -> PaneTable:
        """Return the table of a pane.

        Args:
            start: The start of the pane.
            due: When its next window fires.
        """
        pane = start, start + self._panes.slide
        table = self._tables.get(pane)
        if table is None:
            table = self._tables[pane] = PaneTable(pane, due, self._panes.merge, is_new=self._is_new(pane[1] - 1))
        return table

    @override
    def times_up_to(self, limit: int) -> list[int]:
        return sorted({table.due for table in self._tables.values() if table.due <= limit})

    def fire(self, time: int) -> list[dict[Hashable, Any]]:
        """Move the panes of the window that ends at a time to their next window, or remove them.

        Panes that are partly in the state are written there, with timers that are due.

        Returns:
            The accumulators of the other panes, one or two dicts each.
        """
        first = time + 1 - self._panes.size
        found: list[dict[Hashable, Any]] = []
        for table in [table for table in self._tables.values() if table.due == time]:
            if table.stored is not None:
                for timer in self._hand_on(table):
                    self._timers.add(timer)
                continue
            found += [part for part in (table.kept, table.accumulators) if part]
            if table.pane[0] == first:
                del self._tables[table.pane]
                if table.kept:
                    self._fired.append(table)
            else:
                table.due = time + self._panes.slide
        self.turns += 1
        return found

    def _hand_on(self, table: PaneTable) -> list[Timer]:
        """Move the running epoch's additions of a pane to the state, and drop the pane; return the timers it needs."""
        addresses, key_groups = self._addresses(table, table.accumulators)
        accumulators: list[Any] = list(table.accumulators.values())
        timers: Iterable[Timer] = self._timers_of(table, table.accumulators)
        if table.stored is not None:
            read, merge = self._accumulators.read, self._panes.merge
            before = [read(address, group) for address, group in zip(addresses, key_groups, strict=True)]
            timers = [timer for timer, value in zip(timers, before, strict=True) if value is None]
            accumulators = [
                added if value is None else merge(value, added) for value, added in zip(before, accumulators, strict=True)
            ]
        self._accumulators.hold_all(addresses, key_groups, accumulators)
        self._has_state(table)
        del self._tables[table.pane]
        return list(timers)

    @override
    def _timers_of(self, table: WindowTable, keys: Iterable[Hashable]) -> Iterator[Timer]:
        assert isinstance(table, PaneTable)  # noqa: S101 - there are no others here
        return self._timers_at(table.due, table, keys)

    def _timers_at(self, time: int, table: PaneTable, keys: Iterable[Hashable]) -> Iterator[Timer]:
        groups = self.key_groups
        return (new_timer(time, key, groups[key], table.pane) for key in keys)

    @override
    def timers(self) -> Iterator[Timer]:
        for table in self._tables.values():
            keys: Iterable[Hashable] = table.all()
            if table.stored is not None:
                read, groups = self._accumulators.read, self.key_groups
                keys = [key for key in keys if read((key, table.pane), groups[key]) is None]
            yield from self._timers_of(table, keys)

    @override
    def settle(self, *, whole: bool = False) -> None:
        whole = whole or not self._kept_bytes
        leaving = [table for table in self._tables.values() if whole or table.stored is not None]
        timers = [timer for table in leaving for timer in self._hand_on(table)]
        if leaving:
            self._timers.add_for_flush(timers)
            self.turns += 1

    @override
    def drop(self) -> None:
        super().drop()
        for table in self._tables.values():
            table.due = table.due_kept

    @override
    def write_back(self) -> None:
        for table in [*self._tables.values(), *self._fired]:
            if not table.kept:
                continue
            addresses, key_groups = self._addresses(table, table.kept)
            timers = list(self._timers_at(table.due_kept, table, table.kept))
            self._accumulators.store_all(addresses, key_groups, table.kept.values())
            self._timers.store_all(timers)
            self._has_state(table)
            is_open = table.pane in self._tables
            if is_open:
                table.stored = set()
            if not is_open or table.due != table.due_kept:  # its windows have fired in the running epoch
                for address, timer in zip(addresses, timers, strict=True):
                    self._timers.remove(timer)
                    if is_open:
                        self._timers.add(timer._replace(timestamp=table.due))
                    else:
                        self._accumulators.remove(address, timer.key_group)
            table.kept = {}
        self._fired.clear()
