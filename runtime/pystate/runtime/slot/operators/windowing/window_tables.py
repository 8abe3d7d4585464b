"""The open windows in memory: for each, the accumulators by key, which also represent its timers.

An event-time window has a single timer, at its end. So while a window is only in memory, its keys determine its timers, and
a window that is created and fires costs one dict entry. Windows stay in memory over epochs as far as the backend allows;
they become entries of state and timers when a snapshot is taken, or when there are too many.

The same holds for panes, which sliding windows share: a pane has one timer per key, at the end of the first of its windows
that hasn't fired; when that window fires, the timer moves to the next.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator

from pystate.common.overrides import override
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, new_timer
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.core.state.kinds.epoch_size import mapping_size
from pystate.core.state.kinds.overlay import EpochBuffer

_FEW = 1_000
_ENDS_KNOWN = 10_000
"""After this many ends of windows with state, only the highest of them is kept."""


class WindowTable:
    """One window, or one pane.

    Attributes:
        namespace: The internal namespace.
        end: Its maximum timestamp: its first timer has no earlier time.
        due: When it fires: a window at its end, a pane at the end of its first window that hasn't fired.
        due_kept: The same as of the last finished epoch.
        last: When it fires for the last time, and is removed.
        accumulators: Those of the running epoch, by internal key.
        kept: Those of finished epochs that aren't in the state.
        stored: The keys in the state, as far as the running epoch knows; None if the state has none.
        asks: Whether a key without an accumulator in the running epoch may have one elsewhere.
    """

    __slots__ = ("accumulators", "asks", "due", "due_kept", "end", "kept", "last", "namespace", "stored")

    def __init__(self, namespace: Hashable, end: int, due: int, last: int, *, is_new: bool) -> None:
        self.namespace = namespace
        self.end = end
        self.due = self.due_kept = due
        self.last = last
        self.accumulators: dict[Hashable, object] = {}
        self.kept: dict[Hashable, object] = {}
        self.stored: set[Hashable] | None = None if is_new else set()
        self.asks = not is_new

    def all(self) -> dict[Hashable, object]:
        """Return the accumulators in memory, possibly in a dict of the table."""
        if not self.kept or not self.accumulators:
            return self.kept or self.accumulators
        return {**self.kept, **self.accumulators}

    def commit(self) -> None:
        """Turn the running epoch's accumulators into those of a finished one."""
        if self.kept:
            self.kept.update(self.accumulators)
        else:
            self.kept = self.accumulators
        self.accumulators = {}
        self.asks = True
        self.due_kept = self.due


class WindowTables(EpochBuffer):
    """The windows, or panes, in memory.

    Args:
        accumulators: Their state.
        timers: Their timers.
        kept_bytes: The approximate memory limit for those of finished epochs.
        slide: The time between two windows of a pane, ms; 0 for windows.

    Attributes:
        key_groups: The key groups of all keys in tables, and possibly of others.
        turns: Incremented when tables that were returned before become invalid.
    """

    def __init__(self, accumulators: Accumulators, timers: KeyGroupedPriorityQueue, kept_bytes: int, slide: int = 0) -> None:
        self.key_groups: dict[Hashable, int] = {}
        self.turns = 0
        self._tables: dict[Hashable, WindowTable] = {}
        self._fired: list[WindowTable] = []  # for good by the running epoch, with their accumulators of finished epochs
        self._accumulators = accumulators
        self._timers = timers
        self._kept_bytes = kept_bytes if accumulators.immutable else 0  # values that functions modify can't be rolled back
        self._slide = slide
        self._restored: int | None = None  # after that time no window had state initially
        self._ends: set[int] = set()  # the ends of windows that have got state since
        accumulators.use_buffer(self)
        timers.front = self

    def table(self, namespace: Hashable, end: int, due: int, last: int) -> WindowTable:
        """Return a table; the key groups of its keys must be put into `key_groups`. See `WindowTable` for the arguments."""
        table = self._tables.get(namespace)
        if table is None:
            table = self._tables[namespace] = WindowTable(namespace, end, due, last, is_new=self._is_new(end))
        return table

    def _is_new(self, end: int) -> bool:
        """Return whether the state has no window with that end."""
        if self._restored is None:
            self._restored = self._timers.highest_stored()
        return end > self._restored and end not in self._ends

    def load(self, table: WindowTable, key: Hashable, key_group: int) -> object:
        """Return the accumulator of a key that the running epoch doesn't have; None if there is none."""
        accumulator = table.kept.get(key)
        if accumulator is None and table.stored is not None:
            accumulator = self._accumulators.read((key, table.namespace), key_group)
            if accumulator is not None:
                table.stored.add(key)
        return accumulator

    def next_due(self) -> int | None:
        """Return when the first table is due; None if there is none."""
        return min((table.due for table in self._tables.values()), default=None)

    def fire(self, time: int) -> list[dict[Hashable, object]]:
        """Remove the tables that are due at a time for the last time, and move others to their next window.

        Panes that are partly in the state, and have more windows, are written there, with timers that are due.

        Returns:
            The accumulators of the other tables that are due. Those of a removed table are no longer in the state; their
            timers may be.
        """
        found = []
        for table in [table for table in self._tables.values() if table.due == time]:
            if table.due < table.last and table.stored is not None:
                for timer in self._hand_on(table):
                    self._timers.add(timer)
                continue
            found.append(table.all())
            if table.due < table.last:
                table.due += self._slide
                continue
            del self._tables[table.namespace]
            if table.kept:
                self._fired.append(table)
            for key in table.stored or ():
                if key in table.accumulators:
                    self._accumulators.remove((key, table.namespace), self.key_groups[key])
        self.turns += 1
        return found

    def timers(self) -> Iterator[Timer]:
        """Yield the timers of what is only in memory."""
        for table in self._tables.values():
            yield from self._timers_of(table, table.all(), table.due)

    def _timers_of(self, table: WindowTable, keys: Iterable[Hashable], due: int) -> Iterator[Timer]:
        groups, stored, namespace = self.key_groups, table.stored, table.namespace
        if stored:
            keys = (key for key in keys if key not in stored)
        return (new_timer(due, key, groups[key], namespace) for key in keys)

    def _hand_on(self, table: WindowTable) -> Iterator[Timer]:
        """Move the running epoch's accumulators of a table to the state, and drop it; return the timers it needs."""
        addresses, key_groups = self._addresses(table, table.accumulators)
        self._accumulators.hold_all(addresses, key_groups, table.accumulators.values())
        self._has_state(table)
        del self._tables[table.namespace]
        return self._timers_of(table, table.accumulators, table.due)

    @override
    def settle(self, *, whole: bool = False) -> None:
        whole = whole or not self._kept_bytes
        leaving = [table for table in self._tables.values() if whole or table.stored is not None]
        for table in leaving:
            self._timers.add_for_flush(self._hand_on(table))
        if leaving:
            self.turns += 1

    @override
    def commit(self) -> None:
        for table in self._tables.values():
            table.commit()
        self._fired.clear()
        self.turns += 1
        kept = [table.kept for table in self._tables.values()]
        if sum(map(sys.getsizeof, kept)) > self._kept_bytes // 4 and sum(map(mapping_size, kept)) > self._kept_bytes:
            self.write_back()
            self._tables.clear()
        if len(self.key_groups) > _FEW + 2 * sum(map(len, kept)):
            groups = {key: self.key_groups[key] for table in self._tables.values() for key in table.kept}
            self.key_groups.clear()  # other objects keep a reference to this dict
            self.key_groups.update(groups)

    @override
    def drop(self) -> None:
        for table in self._fired:
            self._tables[table.namespace] = table
        self._fired.clear()
        for table in list(self._tables.values()):
            table.accumulators = {}
            table.due = table.due_kept
            if not table.kept:
                del self._tables[table.namespace]
        self.turns += 1

    @override
    def write_back(self) -> None:
        for table in [*self._tables.values(), *self._fired]:
            if not table.kept:
                continue
            addresses, key_groups = self._addresses(table, table.kept)
            timers = list(self._timers_of(table, table.kept, table.due_kept))
            self._accumulators.store_all(addresses, key_groups, table.kept.values())
            self._timers.store_all(timers)
            self._has_state(table)
            is_open = table.namespace in self._tables
            if is_open:
                table.stored = set(table.kept)
            if not is_open or table.due != table.due_kept:  # it has fired in the running epoch
                for address, timer in zip(addresses, timers, strict=True):
                    self._timers.remove(timer)
                    if is_open:
                        self._timers.add(timer._replace(timestamp=table.due))
                    else:
                        self._accumulators.remove(address, timer.key_group)
            table.kept = {}
        self._fired.clear()

    def _addresses(self, table: WindowTable, keys: Iterable[Hashable]) -> tuple[list[Hashable], list[int]]:
        groups, namespace = self.key_groups, table.namespace
        return [(key, namespace) for key in keys], [groups[key] for key in keys]

    def _has_state(self, table: WindowTable) -> None:
        """Record that the state contains a window."""
        if len(self._ends) > _ENDS_KNOWN:
            self._restored = max(self._ends)
            self._ends.clear()
        self._ends.add(table.end)

    @override
    def held_bytes(self) -> int:
        tables = self._tables.values()
        sizes = sum(mapping_size(table.accumulators, keys=False) + sys.getsizeof(table.stored) for table in tables)
        return sizes + mapping_size(self.key_groups)
