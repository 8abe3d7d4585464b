"""The priority queue of timers: a set ordered by time per key group, Flink's KeyGroupedInternalPriorityQueue.

It only stores timers; the timer service makes them fire. As with all state, changes of a running epoch are held in an
overlay until the epoch is flushed, and are dropped when it is rolled back; snapshots see flushed epochs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.state.base.timer_buckets import TimerBuckets
from pystate.core.state.base.timer_schema import Timer, TimerSchema, check_time, new_timer
from pystate.core.state.kinds.epoch_size import mapping_size
from pystate.core.state.kinds.overlay import EpochBuffer, EpochOverlay

if TYPE_CHECKING:
    from pystate.core.state.keys.key_context import InternalKeyContext

_BEFORE_ALL = -(1 << 63) - 1
_AFTER_ALL = 1 << 63
_ADDED_BYTES = 16
_HEADS_PER_GROUP = 4

_time_of = attrgetter("timestamp")

Change = tuple[Timer, bool]
"""A timer, and whether it was added; else it was removed."""


class TimerStore(Protocol):
    """The flushed timers of one service.

    Attributes:
        generation: Changes whenever timers that `put_all` was to remove come back.
    """

    generation: int

    def put_all(self, changes: list[Change]) -> None:
        """Store the changes. Added timers may exist already, removed ones may not exist."""

    def first(self, key_group: int, changes: Mapping[Timer, bool], /) -> Timer | None:
        """Return a timer of the lowest time that the running epoch hasn't removed.

        Args:
            key_group: Of which.
            changes: What the running epoch did. Until `end_epoch` it only grows, and what is added again counts as new.
        """

    def timers(self, key_group: int, /) -> Iterator[Timer]:
        """Iterate over the timers of a key group in the order of their times, until the epoch ends."""

    def last_time(self) -> int | None:
        """Return a time after which no timer is stored; None if none is stored at all."""

    def kept_bytes(self) -> int:
        """Return the approximate memory kept only for the running epoch."""

    def end_epoch(self) -> None:
        """Drop what was kept only for the running epoch."""


class KeyGroupedPriorityQueue(EpochOverlay):
    """The timers of one service in one time domain.

    Args:
        schema: Their schema.
        context: The key context.
        store: The flushed timers.

    Attributes:
        schema: As given.
        front: The operator's buffer above the queue; None if there is none.
    """

    __slots__ = (
        "_added",
        "_context",
        "_changes",
        "_epoch",
        "_generation",
        "_heads",
        "_highest",
        "_lowest",
        "_owned",
        "_store",
        "front",
        "schema",
    )

    def __init__(self, schema: TimerSchema, context: InternalKeyContext, store: TimerStore) -> None:
        self.schema = schema
        self._context = context
        self._store = store
        self.front: EpochBuffer | None = None
        self._owned = range(context.key_group_range.start, context.key_group_range.end + 1)
        self._changes: dict[Timer, bool] = {}
        self._added: dict[int, TimerBuckets] = {}  # what was removed again is still in them
        self._epoch = 0
        self._heads: list[tuple[int, int]] = []  # a heap of (time, key group)
        self._lowest: dict[int, int] = {}  # which of them count: none is above the first time of its key group
        self._generation = -1
        self._highest = _AFTER_ALL  # until it is requested

    def highest_stored(self) -> int:
        """Return a time after which no timer is flushed. It may rise whenever an epoch ends, or is moved to disk.

        A later timer that fires in the epoch that added it was never stored, so it is simply dropped.
        """
        if self._highest == _AFTER_ALL:
            last = self._store.last_time()
            self._highest = _BEFORE_ALL if last is None else last
        return self._highest

    def timer(self, timestamp: int, namespace: Any = None) -> Timer:
        """Return a timer of the current key.

        Args:
            timestamp: When it fires, ms since 1970.
            namespace: Its namespace; None for the void one.

        Raises:
            StateError: There is no current key, it isn't one of this subtask's, or an argument is invalid.
        """
        check_time(timestamp)
        context = self._context
        internal = self.schema.namespaces.internal(namespace)
        if context.active_key_group not in self._owned:
            _ = context.current_key  # raises if there is none
            groups = context.key_group_range
            message = f"Key group {context.active_key_group} isn't one of this subtask's, {groups}."
            raise StateError(message, where=f"state {self.schema.name!r}")
        return new_timer(timestamp, context.active_key, context.active_key_group, internal)

    def add(self, timer: Timer) -> None:
        """Add a timer; does nothing if it exists."""
        changes = self._changes
        if changes.get(timer):
            return
        changes[timer] = True
        time, _, key_group, _ = timer
        added = self._added.get(key_group)
        if added is None:
            added = self._added[key_group] = TimerBuckets()
        added.add(timer)
        known = self._lowest.get(key_group)
        if known is None or time < known:
            self._announce(key_group, time)

    def add_for_flush(self, timers: Iterable[Timer]) -> None:
        """Add timers right before the epoch is flushed; until then they aren't found."""
        for timer in timers:
            self._changes[timer] = True
            self._announce(timer[2], timer[0])

    def store_all(self, timers: Iterable[Timer]) -> None:
        """Store timers outside of the running epoch, as those of a finished epoch."""
        changes = [(timer, True) for timer in timers]
        self.apply_flush(changes)
        for timer, _ in changes:
            self._announce(timer[2], timer[0])

    def remove(self, timer: Timer) -> None:
        """Remove a timer; does nothing if it doesn't exist."""
        self._changes[timer] = False

    def peek(self, key_group: int | None = None) -> Timer | None:
        """Return a timer of the lowest time; None if there is none.

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
                    continue  # the old one is dropped when it is reached
            heapq.heappop(heads)
        return None

    def poll(self, key_group: int | None = None) -> Timer | None:
        """Remove a timer of the lowest time and return it; see `peek`."""
        timer = self.peek(key_group)
        if timer is not None:
            self.remove(timer)
        return timer

    def poll_due(self, limit: int, at_most: int) -> list[Timer]:
        """Remove and return the timers up to a time, in the order of `poll`.

        Args:
            limit: The time, which counts as due.
            at_most: How many, at least 1.
        """
        due: list[Timer] = []
        while len(due) < at_most and (timer := self.peek()) is not None and timer.timestamp <= limit:
            due += self._take(timer, at_most - len(due))
        return due

    def is_empty(self) -> bool:
        """Return whether the queue is empty."""
        return self.peek() is None

    def timers(self, key_group: int | None = None) -> Iterator[Timer]:
        """Iterate over the present timers, those of each key group in the order of their times.

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
        """Announce a possibly lower first time of a key group."""
        known = self._lowest.get(key_group)
        if known is None or time < known:
            self._lowest[key_group] = time
            heapq.heappush(self._heads, (time, key_group))
            if len(self._heads) > _HEADS_PER_GROUP * len(self._owned):  # most of them no longer count
                self._heads[:] = [(first, group) for group, first in self._lowest.items()]
                heapq.heapify(self._heads)

    def _first(self, key_group: int) -> Timer | None:
        stored, added = self._store.first(key_group, self._changes), self._first_added(key_group)
        if not added:
            return stored
        return added[-1] if stored is None or added[-1].timestamp < stored.timestamp else stored

    def _first_added(self, key_group: int) -> list[Timer] | None:
        """Return the bucket with the earliest timer added by the epoch."""
        changes, added = self._changes, self._added.get(key_group)
        while added is not None and (bucket := added.front()):
            while bucket:
                if changes.get(bucket[-1]):
                    return bucket
                bucket.pop()
        return None

    def _take(self, first: Timer, at_most: int) -> list[Timer]:
        """Remove and return the timers of one key group and time, of which `first` is the first."""
        time, _, key_group, _ = first
        changes, store = self._changes, self._store
        taken: list[Timer] = []
        stored = store.first(key_group, changes)
        while stored is not None and stored[0] == time and len(taken) < at_most:
            changes[stored] = False
            taken.append(stored)
            stored = store.first(key_group, changes)
        if stored is not None and stored[0] == time:
            return taken
        bucket = self._first_added(key_group)
        room = at_most - len(taken)
        if bucket and bucket[-1][0] == time and room > 0:
            is_stored = time <= self._highest
            for timer in reversed(bucket[-room:]):
                if changes.get(timer):
                    if is_stored:
                        changes[timer] = False
                    else:
                        del changes[timer]
                    taken.append(timer)
            del bucket[-room:]
        return taken

    def prepare_flush(self) -> list[Change]:
        """Return what the epoch added and removed."""
        if self.front is not None:
            self.front.settle()
        return list(self._changes.items())

    @override
    def apply_flush(self, changes: list[Change]) -> None:
        self._store.put_all(changes)
        if self._highest != _AFTER_ALL:
            last = max((timer[0] for timer, added in changes if added), default=_BEFORE_ALL)
            self._highest = max(self._highest, last)

    @override
    def drop_epoch(self) -> None:
        for timer, added in self._changes.items():
            if not added:  # it may be there again
                self._announce(timer.key_group, timer.timestamp)
        self._changes.clear()
        self._added.clear()
        self._epoch += 1
        self._store.end_epoch()

    @override
    def held_bytes(self) -> int:
        changes: Mapping[Any, bool] = self._changes
        return mapping_size(changes) + _ADDED_BYTES * len(changes) + self._store.kept_bytes()
