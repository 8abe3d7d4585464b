"""Timers in memory: a table, whose layers give frozen views, and a heap per key group over it.

A heap may hold timers that the table has no more; they go when they come up, or when they are more than the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import count
from operator import attrgetter
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.overrides import override
from pystate.state.base.addresses import AddressFormat
from pystate.state.base.canonical import Entry
from pystate.state.base.priority_queue import Change
from pystate.state.base.timer_schema import Timer, time_from_bytes, time_to_bytes
from pystate.state.hashmap.forms import TableForm
from pystate.state.hashmap.table import GroupTable, StateTable

_FEW = 64

_Item = tuple[int, int, Timer]
"""Time, a number of its own, the timer."""


class HashMapTimerStore:
    """The flushed timers of one service.

    Args:
        table: Timer -> True.
    """

    __slots__ = ("_counts", "_heaps", "_numbers", "_passed", "_table", "generation")

    def __init__(self, table: StateTable) -> None:
        self.generation = 0
        self._table = table
        self._numbers = count()
        self._heaps: dict[int, list[_Item]] = {}
        self._counts: dict[int, int] = {}
        self._passed: list[_Item] = []  # removed by the running epoch, which may be rolled back
        for key_group in table.base:
            self._build(key_group)

    def _build(self, key_group: int) -> None:
        timers: Any = self._table.group_keys(key_group)
        heap = [(timer.timestamp, next(self._numbers), timer) for timer in timers]
        heapq.heapify(heap)
        self._heaps[key_group], self._counts[key_group] = heap, len(heap)

    def put_all(self, changes: list[Change]) -> None:
        """Store the changes."""
        table, counts = self._table, self._counts
        for timer, added in changes:
            key_group = timer.key_group
            is_there = table.get(timer, key_group) is not None
            if added and not is_there:
                heapq.heappush(self._heaps[key_group], (timer.timestamp, next(self._numbers), timer))
                counts[key_group] += 1
            elif is_there and not added:
                counts[key_group] -= 1
        groups: dict[Hashable, int] = {timer: timer.key_group for timer, _ in changes}
        table.put_all(((timer, True if added else None) for timer, added in changes), groups)
        for key_group in set(groups.values()):
            if len(self._heaps[key_group]) > 2 * counts[key_group] + _FEW:
                self._build(key_group)

    def first(self, key_group: int, changes: Mapping[Timer, bool]) -> Timer | None:
        """Return a timer of the lowest time that the running epoch hasn't removed."""
        heap, table = self._heaps[key_group], self._table
        while heap:
            timer = heap[0][2]
            if table.get(timer, key_group) is None:
                heapq.heappop(heap)
            elif changes.get(timer) is False:
                self._passed.append(heapq.heappop(heap))
            else:
                return timer
        return None

    def timers(self, key_group: int) -> Iterator[Timer]:
        """Iterate over the timers of a key group in the order of their times."""
        found: Any = self._table.group_keys(key_group)
        return iter(sorted(found, key=attrgetter("timestamp")))

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Take back what the epoch removed, where that didn't last."""
        for item in self._passed:
            timer = item[2]
            if self._table.get(timer, timer.key_group) is not None:
                heapq.heappush(self._heaps[timer.key_group], item)
        self._passed.clear()


class TimerForm(TableForm):
    """Timers as keys of a table.

    Args:
        name: The state's name.
        addresses: How key and namespace are written.
    """

    def __init__(self, name: str, addresses: AddressFormat) -> None:
        self._name = name
        self._addresses = addresses

    def store(self, table: StateTable) -> HashMapTimerStore:
        """Return a store of timers."""
        return HashMapTimerStore(table)

    @override
    def fill(self, table: GroupTable, key_group: int, entries: Iterable[Entry]) -> None:
        addresses = self._addresses
        for key, sub_key, _ in entries:
            address, end = addresses.decode(key, sub_key)
            internal, namespace = addresses.split(address)
            timer = Timer(time_from_bytes(sub_key[end:]), internal, key_group, namespace)
            if timer in table:
                message = f"State {self._name!r} has a timer twice."
                raise RestoreError(message)
            table[timer] = True

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return an entry per timer."""
        key_bytes, prefix, address_of = self._addresses.key_bytes, self._addresses.prefix, self._addresses.address
        timers: Any = stored
        for timer, _ in timers:
            address = address_of(timer.key, timer.namespace)
            yield key_bytes(address), prefix(address) + time_to_bytes(timer.timestamp), b""

    def count(self, table: StateTable) -> int:
        """Return the number of timers."""
        return len(table)
