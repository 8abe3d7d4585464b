"""The open windows in memory: for each, the accumulators by key, which also represent its timers.

An event-time window has a single timer, at its end. So while a window is only in memory, its keys determine its timers, and
a window that is created and fires costs one dict entry. Windows stay in memory over epochs as far as the backend allows;
they become entries of state and timers when a snapshot is taken, or when there are too many.
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
    """One window.

    Attributes:
        namespace: The internal namespace.
        end: The window's maximum timestamp.
        accumulators: Those of the running epoch, by internal key.
        kept: Those of finished epochs that aren't in the state.
        stored: The keys in the state, as far as the running epoch knows; None if the state has none.
        asks: Whether a key without an accumulator in the running epoch may have one elsewhere.
    """

    __slots__ = ("accumulators", "asks", "end", "kept", "namespace", "stored")

    def __init__(self, namespace: Hashable, end: int, *, is_new: bool) -> None:
        self.namespace = namespace
        self.end = end
        self.accumulators: dict[Hashable, object] = {}
        self.kept: dict[Hashable, object] = {}
        self.stored: set[Hashable] | None = None if is_new else set()
        self.asks = not is_new

    def all(self) -> dict[Hashable, object]:
        """Return the accumulators of the window that are in memory."""
        return {**self.kept, **self.accumulators} if self.kept else self.accumulators

    def commit(self) -> None:
        """Turn the running epoch's accumulators into those of a finished one."""
        if self.kept:
            self.kept.update(self.accumulators)
        else:
            self.kept = self.accumulators
        self.accumulators = {}
        self.asks = True


class WindowTables(EpochBuffer):
    """The windows in memory.

    Args:
        accumulators: The state of windows.
        timers: The timers of windows.
        kept_bytes: The approximate memory limit for windows of finished epochs.

    Attributes:
        key_groups: The key groups of all keys in tables, and possibly of others.
        turns: Incremented when tables that were returned before become invalid.
    """

    def __init__(self, accumulators: Accumulators, timers: KeyGroupedPriorityQueue, kept_bytes: int) -> None:
        self.key_groups: dict[Hashable, int] = {}
        self.turns = 0
        self._tables: dict[Hashable, WindowTable] = {}
        self._fired: list[WindowTable] = []  # by the running epoch, with their accumulators of finished epochs
        self._accumulators = accumulators
        self._timers = timers
        self._kept_bytes = kept_bytes if accumulators.immutable else 0  # values that functions modify can't be rolled back
        self._restored: int | None = None  # after that time no window had state initially
        self._ends: set[int] = set()  # the ends of windows that have got state since
        accumulators.stand_behind(self)
        timers.front = self

    def table(self, namespace: Hashable, end: int) -> WindowTable:
        """Return the table of a window; the key groups of its keys must be put into `key_groups`."""
        table = self._tables.get(namespace)
        if table is None:
            table = self._tables[namespace] = WindowTable(namespace, end, is_new=self._is_new(end))
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

    def known(self, namespace: Hashable) -> WindowTable | None:
        """Return the table of a window; None if there is none."""
        return self._tables.get(namespace)

    def times_up_to(self, limit: int) -> list[int]:
        """Return the ends of windows up to a time, in order."""
        return sorted({table.end for table in self._tables.values() if table.end <= limit})

    def take(self, time: int) -> list[WindowTable]:
        """Remove and return the tables of the windows that end at a time, in order to fire them."""
        found = [table for table in self._tables.values() if table.end == time]
        for table in found:
            del self._tables[table.namespace]
        self._fired += [table for table in found if table.kept]
        self.turns += 1
        return found

    def timers(self) -> Iterator[Timer]:
        """Yield the timers of windows that are only in memory."""
        for table in self._tables.values():
            yield from self._timers_of(table, table.all())

    def _timers_of(self, table: WindowTable, keys: Iterable[Hashable]) -> Iterator[Timer]:
        groups, stored, end, namespace = self.key_groups, table.stored, table.end, table.namespace
        if stored:
            keys = (key for key in keys if key not in stored)
        return (new_timer(end, key, groups[key], namespace) for key in keys)

    @override
    def settle(self, *, whole: bool = False) -> None:
        whole = whole or not self._kept_bytes
        leaving = [table for table in self._tables.values() if whole or table.stored is not None]
        timers: list[Timer] = []
        for table in leaving:
            addresses, key_groups = self._addresses(table, table.accumulators)
            self._accumulators.hold_all(addresses, key_groups, table.accumulators.values())
            timers += self._timers_of(table, table.accumulators)
            self._has_state(table)
            del self._tables[table.namespace]
        if leaving:
            self._timers.add_for_flush(timers)
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
            if not table.kept:
                del self._tables[table.namespace]
        self.turns += 1

    @override
    def write_back(self) -> None:
        for table in [*self._tables.values(), *self._fired]:
            if not table.kept:
                continue
            addresses, key_groups = self._addresses(table, table.kept)
            timers = list(self._timers_of(table, table.kept))
            self._accumulators.store_all(addresses, key_groups, table.kept.values())
            self._timers.store_all(timers)
            self._has_state(table)
            if table.namespace in self._tables:
                table.stored = set(table.kept)
            else:  # it has fired in the running epoch
                for address, timer in zip(addresses, timers, strict=True):
                    self._accumulators.remove(address, timer.key_group)
                    self._timers.remove(timer)
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
