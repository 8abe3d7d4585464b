"""The priority queue that timers are kept in: a set ordered by time per key group, Flink's KeyGroupedInternalPriorityQueue.

It holds timers; who asks when, and makes them fire, is the timer service. As with all state, what a running epoch adds and
removes lives in an overlay until the epoch is flushed, and is gone when it is rolled back; snapshots see flushed epochs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.state.base.epoch_size import mapping_size
from pystate.state.base.overlay import EpochOverlay
from pystate.state.base.timer_schema import Timer, TimerSchema, check_time

if TYPE_CHECKING:
    from pystate.state.base.key_context import InternalKeyContext

_BEFORE_ALL = -(1 << 63) - 1
_HEAP_ITEM_BYTES = 150
_HEADS_PER_GROUP = 4

_time_of = attrgetter("timestamp")

Change = tuple[Timer, bool]
"""A timer, and whether it was added; else it was removed."""


class TimerStore(Protocol):
    """The flushed timers of one service.

    Attributes:
        generation: Another number whenever timers come back that were said to be removed by `put_all`.
    """

    generation: int

    def put_all(self, changes: list[Change]) -> None:
        """Store the changes. What is added may be there, what is removed may not be."""

    def first(self, key_group: int, changes: Mapping[Timer, bool], /) -> Timer | None:
        """Return a timer of the lowest time that the running epoch hasn't removed.

        Args:
            key_group: Of which.
            changes: What the running epoch did. Until `end_epoch` it only grows, and what is added again counts as new.
        """

    def timers(self, key_group: int, /) -> Iterator[Timer]:
        """Iterate over the timers of a key group in the order of their times, until the epoch ends."""

    def kept_bytes(self) -> int:
        """Return about how much memory is taken by what is kept for the running epoch alone."""

    def end_epoch(self) -> None:
        """Forget what was kept for the running epoch alone."""


class KeyGroupedPriorityQueue(EpochOverlay):
    """The timers of one service in one domain of time.

    Args:
        schema: What they are.
        context: Whose current key they are of.
        store: The flushed ones.

    Attributes:
        schema: As given.
    """

    __slots__ = (
        "_added",
        "_context",
        "_changes",
        "_count",
        "_epoch",
        "_generation",
        "_heads",
        "_lowest",
        "_owned",
        "_store",
        "schema",
    )

    def __init__(self, schema: TimerSchema, context: InternalKeyContext, store: TimerStore) -> None:
        self.schema = schema
        self._context = context
        self._store = store
        self._owned = range(context.key_group_range.start, context.key_group_range.end + 1)
        self._changes: dict[Timer, bool] = {}
        self._added: dict[int, list[tuple[int, int, Timer]]] = {}  # heaps; what was removed again is still in them
        self._count = 0  # so that timers of one time need not be compared
        self._epoch = 0
        self._heads: list[tuple[int, int]] = []  # a heap of (time, key group)
        self._lowest: dict[int, int] = {}  # which of them count: none is above the first time of its key group
        self._generation = -1

    def timer(self, timestamp: int, namespace: Any = None) -> Timer:
        """Return a timer of the current key.

        Args:
            timestamp: When it fires, ms since 1970.
            namespace: Its namespace; None for the void one.

        Raises:
            StateError: There is no current key, or it is none of this subtask's; or an argument isn't what it should be.
        """
        check_time(timestamp)
        context = self._context
        internal = self.schema.namespaces.internal(namespace)
        if context.active_key_group not in self._owned:
            _ = context.current_key  # raises where there is none
            groups = context.key_group_range
            message = f"Key group {context.active_key_group} isn't one of this subtask's, {groups}."
            raise StateError(message, where=f"state {self.schema.name!r}")
        return Timer(timestamp, context.active_key, context.active_key_group, internal)

    def add(self, timer: Timer) -> None:
        """Add a timer; nothing happens where it is there."""
        if self._changes.get(timer):
            return
        self._changes[timer] = True
        self._count += 1
        heapq.heappush(self._added.setdefault(timer.key_group, []), (timer.timestamp, self._count, timer))
        self._announce(timer.key_group, timer.timestamp)

    def remove(self, timer: Timer) -> None:
        """Remove a timer; nothing happens where it isn't there."""
        self._changes[timer] = False

    def peek(self, key_group: int | None = None) -> Timer | None:
        """Return a timer of the lowest time; None where there is none.

        Args:
            key_group: Of this key group; None for all.
        """
        if key_group is not None:
            return self._first(key_group) if key_group in self._owned else None
        if self._generation != self._store.generation:
            self._generation = self._store.generation
            self._lowest = dict.fromkeys(self._owned, _BEFORE_ALL)
            self._heads = [(_BEFORE_ALL, group) for group in self._owned]
        heads, lowest = self._heads, self._lowest
        while heads:
            time, group = heads[0]
            if lowest.get(group) == time:
                timer = self._first(group)
                if timer is not None and timer.timestamp == time:
                    return timer
                del lowest[group]
                if timer is not None:
                    self._announce(group, timer.timestamp)
                    continue  # the old one goes when it comes up
            heapq.heappop(heads)
        return None

    def poll(self, key_group: int | None = None) -> Timer | None:
        """Remove a timer of the lowest time and return it; see `peek`."""
        timer = self.peek(key_group)
        if timer is not None:
            self.remove(timer)
        return timer

    def is_empty(self) -> bool:
        """Return whether there is no timer."""
        return self.peek() is None

    def timers(self, key_group: int | None = None) -> Iterator[Timer]:
        """Iterate over the timers as they are now, each key group's in the order of their times.

        Args:
            key_group: Of this key group; None for all, one after another.

        Raises:
            StateError: The epoch ended meanwhile, or was moved to disk.
        """
        return self._timers(self._owned if key_group is None else (key_group,), dict(self._changes), self._epoch)

    def __iter__(self) -> Iterator[Timer]:
        """Iterate over all timers, see `timers`."""
        return self.timers()

    def _timers(self, groups: Any, changes: dict[Timer, bool], epoch: int) -> Iterator[Timer]:
        added: dict[int, list[Timer]] = {}
        for timer, is_added in changes.items():
            if is_added:
                added.setdefault(timer.key_group, []).append(timer)
        for group in groups:
            self._check_epoch(epoch)
            mine = sorted(added.get(group, ()), key=_time_of)
            stored = (timer for timer in self._store.timers(group) if timer not in changes)
            for timer in heapq.merge(mine, stored, key=_time_of):
                yield timer
                self._check_epoch(epoch)

    def _check_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            message = f"An iteration over {self.schema.name!r} went on after its epoch had ended, or was moved to disk."
            raise StateError(message, hint="iterate to the end, or not at all, while one element is processed")

    def _announce(self, key_group: int, time: int) -> None:
        """Say that the first time of a key group may be as low as that."""
        known = self._lowest.get(key_group)
        if known is None or time < known:
            self._lowest[key_group] = time
            heapq.heappush(self._heads, (time, key_group))
            if len(self._heads) > _HEADS_PER_GROUP * len(self._owned):  # most of them no longer count
                self._heads[:] = [(first, group) for group, first in self._lowest.items()]
                heapq.heapify(self._heads)

    def _first(self, key_group: int) -> Timer | None:
        changes, heap = self._changes, self._added.get(key_group)
        while heap and not changes.get(heap[0][2]):
            heapq.heappop(heap)
        stored = self._store.first(key_group, changes)
        if not heap:
            return stored
        added = heap[0][2]
        return added if stored is None or added.timestamp < stored.timestamp else stored

    def prepare_flush(self) -> list[Change]:
        """Return what the epoch added and removed."""
        return list(self._changes.items())

    @override
    def apply_flush(self, changes: list[Change]) -> None:
        self._store.put_all(changes)

    @override
    def drop_epoch(self) -> None:
        for timer, added in self._changes.items():
            if not added:  # it may be there again
                self._announce(timer.key_group, timer.timestamp)
        self._changes.clear()
        self._added.clear()
        self._count = 0
        self._epoch += 1
        self._store.end_epoch()

    @override
    def held_bytes(self) -> int:
        changes: Mapping[Any, bool] = self._changes
        return mapping_size(changes) + _HEAP_ITEM_BYTES * self._count + self._store.kept_bytes()
