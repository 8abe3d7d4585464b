"""The windows that the running epoch has elements of: for each the accumulators by key, and by that its timers.

A window of event time has its one timer at its end. So as long as it is the running epoch's alone, its keys are all that
is to be known of its timers, and one that is made and fires within an epoch costs an entry of one dict. What an epoch leaves
becomes entries of state and timers when it ends, or has to be moved to disk.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator

from pystate.common.overrides import override
from pystate.state.base.accumulators import Accumulators
from pystate.state.base.epoch_front import EpochFront
from pystate.state.base.epoch_size import mapping_size
from pystate.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.state.base.timer_schema import Timer, new_timer

_ENDS_KNOWN = 10_000
"""After so many ends of windows, those that have state are known no better than by the last of them."""


class WindowTable:
    """One window.

    Attributes:
        namespace: The internal one.
        end: The window's last time.
        accumulators: By internal key.
        stored: Those keys whose accumulators are in the state, too; None where no finished epoch knows the window.
    """

    __slots__ = ("accumulators", "end", "namespace", "stored")

    def __init__(self, namespace: Hashable, end: int, *, is_new: bool) -> None:
        self.namespace = namespace
        self.end = end
        self.accumulators: dict[Hashable, object] = {}
        self.stored: set[Hashable] | None = None if is_new else set()


class WindowTables(EpochFront):
    """The windows of the running epoch.

    Args:
        accumulators: The state of windows; what is in the tables goes there.
        timers: The timers of windows.

    Attributes:
        key_groups: Of all keys in tables, and of others.
        turns: Goes up whenever tables that were handed out are no longer part of the epoch.
    """

    def __init__(self, accumulators: Accumulators, timers: KeyGroupedPriorityQueue) -> None:
        self.key_groups: dict[Hashable, int] = {}
        self.turns = 0
        self._tables: dict[Hashable, WindowTable] = {}
        self._accumulators = accumulators
        self._timers = timers
        self._restored: int | None = None  # behind that time no window had state at first
        self._ends: set[int] = set()  # those that have got some since
        accumulators.stand_behind(self)
        timers.front = self

    def table(self, namespace: Hashable, end: int) -> WindowTable:
        """Return the table of a window, for accumulators of keys whose key groups are put into `key_groups`."""
        table = self._tables.get(namespace)
        if table is None:
            if self._restored is None:
                self._restored = self._timers.highest_stored()
            is_new = end > self._restored and end not in self._ends
            table = self._tables[namespace] = WindowTable(namespace, end, is_new=is_new)
        return table

    def load(self, table: WindowTable, key: Hashable, key_group: int) -> object:
        """Return the accumulator that the state has of a key that isn't in a table; None where there is none."""
        if table.stored is None:
            return None
        accumulator: object = self._accumulators.read((key, table.namespace), key_group)
        if accumulator is not None:
            table.stored.add(key)
        return accumulator

    def known(self, namespace: Hashable) -> WindowTable | None:
        """Return the table of a window; None where there is none."""
        return self._tables.get(namespace)

    def times_up_to(self, limit: int) -> list[int]:
        """Return the ends of windows up to a time, in order."""
        return sorted({table.end for table in self._tables.values() if table.end <= limit})

    def take(self, time: int) -> list[WindowTable]:
        """Return the tables of the windows that end at a time, which are no longer held."""
        found = [table for table in self._tables.values() if table.end == time]
        for table in found:
            del self._tables[table.namespace]
        self.turns += 1
        return found

    def timers(self) -> Iterator[Timer]:
        """Iterate over the timers of windows that are in tables alone."""
        groups = self.key_groups
        for table in self._tables.values():
            for key in table.accumulators:
                if table.stored is None or key not in table.stored:
                    yield new_timer(table.end, key, groups[key], table.namespace)

    @override
    def settle(self) -> None:
        if not self._tables:
            return
        groups, timers = self.key_groups, list(self.timers())
        for namespace, table in self._tables.items():
            keys, end = list(table.accumulators), table.end
            addresses = [(key, namespace) for key in keys]
            self._accumulators.hold_all(addresses, [groups[key] for key in keys], table.accumulators.values())
            self._ends.add(end)
        self._timers.add_for_flush(timers)
        if len(self._ends) > _ENDS_KNOWN:
            self._restored = max(self._ends)
            self._ends.clear()
        self.drop()

    @override
    def drop(self) -> None:
        if self._tables or self.key_groups:
            self._tables.clear()
            self.key_groups.clear()
            self.turns += 1

    @override
    def held_bytes(self) -> int:
        tables = self._tables.values()
        sizes = sum(mapping_size(table.accumulators, keys=False) + sys.getsizeof(table.stored) for table in tables)
        return sizes + mapping_size(self.key_groups)
