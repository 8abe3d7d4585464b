"""Timers in memory: a table, whose layers provide frozen views, and buckets by time per key group.

Buckets may contain timers that were removed from the table; they are dropped when they are reached, or when they outnumber
the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.overrides import override
from pystate.core.state.base.priority_queue import Change
from pystate.core.state.base.timer_buckets import TimerBuckets
from pystate.core.state.base.timer_schema import Timer, time_from_bytes, time_to_bytes
from pystate.core.state.files.canonical import Entry
from pystate.core.state.hashmap.forms import TableForm
from pystate.core.state.hashmap.hashmap_table import GroupTable, StateTable
from pystate.core.state.keys.addresses import AddressFormat

_FEW = 64


class HashMapTimerStore:
    """The flushed timers of one service.

    Args:
        table: Timer -> True.
    """

    __slots__ = ("_counts", "_groups", "_passed", "_table", "generation")

    def __init__(self, table: StateTable) -> None:
        self.generation = 0
        self._table = table
        self._groups: dict[int, TimerBuckets] = {}
        self._counts: dict[int, int] = {}
        self._passed: dict[int, list[Timer]] = {}  # removed by the running epoch, which may be rolled back
        for key_group in table.base:
            self._build(key_group)

    def _build(self, key_group: int) -> None:
        timers: Any = self._table.group_keys(key_group)
        self._groups[key_group] = TimerBuckets(timers)
        self._counts[key_group] = len(timers)

    def put_all(self, changes: list[Change]) -> None:
        """Store the changes."""
        table, counts, groups = self._table, self._counts, self._groups
        if table.layers:  # a snapshot is being written
            key_groups: dict[Hashable, int] = {timer: timer.key_group for timer, _ in changes}
            known = [table.get(timer, timer.key_group) is not None for timer, _ in changes]
            table.put_all(((timer, True if added else None) for timer, added in changes), key_groups)
        else:
            known = [self._put(timer, added=added) for timer, added in changes]
        removed: set[int] = set()
        for (timer, added), was_there in zip(changes, known, strict=True):
            if added is was_there:
                continue
            key_group = timer[2]
            if added:
                groups[key_group].add(timer)
                counts[key_group] += 1
            else:
                counts[key_group] -= 1
                removed.add(key_group)
        for key_group in removed:
            if groups[key_group].size > 2 * counts[key_group] + _FEW:
                self._build(key_group)

    def _put(self, timer: Timer, *, added: bool) -> bool:
        """Store one change if no view is open; return whether the timer existed."""
        group = self._table.base[timer[2]]
        if not added:
            return group.pop(timer, None) is not None
        before = len(group)
        group[timer] = True
        return len(group) == before

    def first(self, key_group: int, changes: Mapping[Timer, bool]) -> Timer | None:
        """Return a timer of the lowest time that the running epoch hasn't removed."""
        buckets, table = self._groups[key_group], self._table
        while bucket := buckets.front():
            while bucket:
                timer = bucket[-1]
                if table.get(timer, key_group) is not None:
                    if changes.get(timer) is not False:
                        return timer
                    self._passed.setdefault(key_group, []).append(timer)
                bucket.pop()
                buckets.size -= 1
        return None

    def timers(self, key_group: int) -> Iterator[Timer]:
        """Iterate over the timers of a key group in the order of their times."""
        found: Any = self._table.group_keys(key_group)
        return iter(sorted(found, key=attrgetter("timestamp")))

    def last_time(self) -> int | None:
        """Return a time after which no timer is stored."""
        times = [buckets.last_time() for buckets in self._groups.values()]
        times += [passed[-1].timestamp for passed in self._passed.values()]
        return max((time for time in times if time is not None), default=None)

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Restore timers whose removal by the epoch was not flushed."""
        for key_group, passed in self._passed.items():
            self._groups[key_group].put_back([timer for timer in passed if self._table.get(timer, key_group) is not None])
        self._passed.clear()


class TimerForm(TableForm):
    """Timers as keys of a table.

    Args:
        name: The state's name.
        addresses: The format of keys and namespaces.
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
