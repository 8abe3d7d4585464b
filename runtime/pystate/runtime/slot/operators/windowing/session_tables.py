"""The open sessions in memory: for each key its sessions with their accumulators, which also represent their timers.

A session has a single timer, at its end, and one entry in the state of merging windows, so what is only in memory is a tuple
per session. Sessions stay in memory over epochs as far as the backend allows; they become entries of state and timers when a
snapshot is taken, or when there are too many. After a snapshot they are still in memory: nothing is read back, and the next
one writes what has changed. A key whose last session has fired leaves the state with its epoch.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from pystate.common.overrides import override
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, check_time, new_timer
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.core.state.kinds.epoch_size import mapping_size, object_size, sample_of, scaled
from pystate.core.state.kinds.map_states import OverlayMapState
from pystate.core.state.kinds.overlay import ABSENT, EpochBuffer

_FEW = 1_000
_SESSION_BYTES = 250
"""The memory of a session besides its accumulator: tuples, and times."""

_STORED_BYTES = 200
"""The memory of a key whose sessions in the state are known."""

_DUE_BYTES = 250
"""The memory of a time at which a session of some key may end."""

_MOST_DUE = 1.25
"""If more times a session are known, most of the rest are passed for nothing, which takes longer than to find them again."""

_SAMPLE_SESSIONS = 4

Window = tuple[int, int]
"""Start and end, ms."""


class Session(NamedTuple):
    """A session of a key.

    Attributes:
        start: The time of its first element, ms.
        end: When it ends, if no more elements come.
        accumulator: That of its elements; None if it has none.
        state_window: The window under which the state has its contents; None if it has none of it.
    """

    start: int
    end: int
    accumulator: Any
    state_window: Window | None


Sessions = tuple[Session, ...]
"""Those of a key, by their start."""

_by_start = itemgetter(0)


class SessionTables(EpochBuffer):
    """The sessions in memory.

    Args:
        accumulators: Their state.
        pairs: The state of merging windows: the window under which the state has a session's contents, by the session's.
        timers: Their timers.
        context: Holds the current key.
        kept_bytes: The approximate memory limit for those of finished epochs.

    Attributes:
        key_groups: The key groups of all keys in memory, and possibly of others.
        running: The sessions of keys that the running epoch has changed or read from the state.
    """

    def __init__(
        self,
        accumulators: Accumulators,
        pairs: OverlayMapState,
        timers: KeyGroupedPriorityQueue,
        context: InternalKeyContext,
        kept_bytes: int,
    ) -> None:
        self.key_groups: dict[Hashable, int] = {}
        self.running: dict[Hashable, Sessions] = {}
        self._kept: dict[Hashable, Sessions] = {}
        self._stored: dict[Hashable, Sessions] = {}  # what the state has of keys in memory
        self._unwritten: dict[Hashable, None] = {}  # keys that finished epochs have changed since
        self._left: dict[Hashable, Sessions] = {}  # the same of keys that the running epoch takes out of the state
        self._due: dict[int, dict[Hashable, None]] = {}  # keys by a time at which a session of theirs may end
        self._times: list[int] = []  # a heap of these times
        self._noted = 0  # how many times of keys are among them at most
        self._kept_count = 0  # of sessions
        self._committed = False  # so that what is due is that of the sessions that are kept, and possibly more
        self._accumulators = accumulators
        self._pairs = pairs
        self._timers = timers
        self._context = context
        self._kept_bytes = kept_bytes if accumulators.immutable else 0  # values that functions modify can't be rolled back
        with closing(pairs.all_keys()) as stored:
            self._has_others = next(stored, None) is not None  # whether the state has keys that aren't in memory
        accumulators.use_buffer(self)
        pairs.front = timers.front = self

    def of_key(self, key: Hashable, key_group: int) -> Sessions:
        """Return the sessions of the current key."""
        sessions = self.running.get(key)
        if sessions is None:
            sessions = self._kept.get(key)
            if sessions is None:
                sessions = self._load(key, key_group)
        return sessions

    def _load(self, key: Hashable, key_group: int) -> Sessions:
        if not self._has_others:
            return ()
        read = self._accumulators.read
        found = [
            Session(start, end, read((key, state_window), key_group), state_window)
            for (start, end), state_window in self._pairs.items()
        ]
        if not found:
            return ()
        self.key_groups[key] = key_group
        sessions = self.running[key] = self._stored[key] = tuple(sorted(found, key=_by_start))
        for session in sessions:
            self._add_due(key, session.end)
        return sessions

    def replace(self, key: Hashable, sessions: Sessions, found: Sequence[Session], merged: Session) -> None:
        """Replace some sessions of a key, possibly none, by the one that they are merged into."""
        if len(sessions) == len(found):
            self.running[key] = (merged,)
        else:
            rest = [one for one in sessions if all(one is not other for other in found)]
            self.running[key] = tuple(sorted((*rest, merged), key=_by_start))
        stored = self._stored.get(key)
        if stored is not None:
            window, group = (merged.start, merged.end), self.key_groups[key]
            windows = {(one.start, one.end) for one in stored}
            for one in found:
                if (one.start, one.end) != window and (one.start, one.end) in windows:
                    self._timers.remove(new_timer(one.end - 1, key, group, (one.start, one.end)))
            if window in windows:  # where lateness was allowed it may have fired before
                self._timers.add(new_timer(merged.end - 1, key, group, window))
        if not found or merged.end != found[-1].end:
            self._add_due(key, merged.end)

    def _add_due(self, key: Hashable, end: int) -> None:
        """Note that a session of a key ends at a time; it may be longer by then."""
        time = end - 1
        keys = self._due.get(time)
        if keys is None:
            check_time(end)
            keys = self._due[time] = {}
            heapq.heappush(self._times, time)
        keys[key] = None
        self._noted += 1

    def next_due(self) -> int | None:
        """Return a time before which no session in memory ends; None if there is none."""
        return self._times[0] if self._times else None

    def take_due(self, time: int) -> list[tuple[Hashable, Session]]:
        """Remove the sessions in memory that end at a time, and return them with their keys."""
        if not self._times or self._times[0] != time:
            return []
        heapq.heappop(self._times)
        found = []
        for key in self._due.pop(time):
            sessions = self.running.get(key)
            if sessions is None:
                sessions = self._kept.get(key, ())
            for session in sessions:
                if session.end == time + 1:
                    found.append((key, session))
                    self.remove(key, sessions, session)
                    break
        return found

    def remove(self, key: Hashable, sessions: Sessions, session: Session) -> None:
        """Remove one of the sessions of a key."""
        self.running[key] = tuple(one for one in sessions if one is not session)

    def timers(self) -> Iterator[Timer]:
        """Yield the timers of what is only in memory."""
        groups, stored = self.key_groups, self._stored
        for key, sessions in {**self._kept, **self.running}.items():
            known = {(one.start, one.end) for one in stored.get(key, ())}
            for start, end, *_ in sessions:
                if (start, end) not in known:
                    yield new_timer(end - 1, key, groups[key], (start, end))

    @override
    def settle(self, *, whole: bool = False) -> None:
        forget = whole
        whole = whole or not self._kept_bytes
        leaving = list(self.running) if whole else self._emptied()
        if leaving:
            context = self._context
            before = context.active_key, context.active_key_group
            for key in leaving:
                context.set_current_key(key, self.key_groups[key])
                old = self._stored.pop(key, ())
                self._hand_on(key, old, self.running.pop(key) if whole else ())
                self._left[key] = old
            context.set_current_key(*before)
        if whole and leaving:
            self._has_others = True
        if forget:
            self._forget_kept()

    def _emptied(self) -> list[Hashable]:
        """Return the keys in the state that have no session left."""
        return [key for key, sessions in self.running.items() if not sessions and key in self._stored]

    def _hand_on(self, key: Hashable, old: Sessions, new: Sessions) -> None:
        """Bring the state of the current key from its old sessions to the new ones."""
        if old is new:
            return
        group = self.key_groups[key]
        places = {(one.start, one.end): one.state_window or (one.start, one.end) for one in new}
        known = {(one.start, one.end): one.state_window or (one.start, one.end) for one in old}
        for window in known.keys() - places.keys():
            self._pairs.remove(window)
            self._timers.remove(new_timer(window[1] - 1, key, group, window))
        for window, place in places.items():
            if known.get(window) != place:
                self._pairs.put(window, place)
        self._timers.add_for_flush(new_timer(window[1] - 1, key, group, window) for window in places if window not in known)
        for place in set(known.values()).difference(places.values()):
            self._accumulators.remove((key, place), group)
        addresses = [(key, place) for place in places.values()]
        self._accumulators.hold_all(addresses, [group] * len(addresses), [one.accumulator for one in new])

    @override
    def commit(self) -> None:
        kept = self._kept
        for key, sessions in self.running.items():
            self._kept_count += len(sessions) - len(kept.get(key, ()))
            if sessions:
                kept[key] = sessions
                self._unwritten[key] = None
            else:
                kept.pop(key, None)
                self._unwritten.pop(key, None)
        self.running.clear()
        self._left.clear()
        if kept and self._size_of(kept, self._kept_count) + _STORED_BYTES * len(self._stored) > self._kept_bytes:
            self.write_back()
            self._forget_kept()
        if len(self.key_groups) > _FEW + 2 * len(kept):
            groups = {key: self.key_groups[key] for key in self._kept}
            self.key_groups.clear()  # other objects keep a reference to this dict
            self.key_groups.update(groups)
        self._committed = True

    @override
    def drop(self) -> None:
        for key in [*self.running, *self._left]:
            if key not in self._kept:
                self._stored.pop(key, None)
            elif key in self._left:
                self._stored[key] = self._left[key]
        self.running.clear()
        self._left.clear()
        if self._committed and self._noted <= _MOST_DUE * self._kept_count:
            self._committed = False
            return
        self._committed = False
        self._forget_due()
        for key, sessions in self._kept.items():
            for session in sessions:
                self._add_due(key, session.end)

    @override
    def write_back(self) -> None:
        addresses: list[Hashable] = []
        key_groups: list[int] = []
        accumulators: list[Any] = []
        timers, pairs, fired_or_merged = [], [], []
        kept, stored, groups = self._kept, self._stored, self.key_groups
        for key in self._unwritten:
            sessions, old = kept[key], stored.get(key, ())
            if old is sessions:  # it was only read
                continue
            group = groups[key]
            entries: dict[Window, Any] = {}
            written = []
            for start, end, accumulator, place in sessions:
                window = (start, end)
                written.append(Session(start, end, accumulator, place or window))
                entries[window] = place or window
                addresses.append((key, place or window))
                accumulators.append(accumulator)
                timers.append(new_timer(end - 1, key, group, window))
            if old:
                places = set(entries.values())
                for start, end, _, place in old:  # their timers have gone with the epochs that changed them
                    entries.setdefault((start, end), ABSENT)
                    if place not in places:
                        addresses.append((key, place))
                        accumulators.append(None)
            key_groups += [group] * (len(addresses) - len(key_groups))
            pairs.append((key, group, entries))
            stored[key] = kept[key] = tuple(written)  # of a key that is there
            if key in self.running:
                present = {(one.start, one.end) for one in self.running[key]}
                for start, end, *_ in sessions:
                    if (start, end) not in present:
                        fired_or_merged.append(new_timer(end - 1, key, group, (start, end)))
        self._unwritten.clear()
        if not pairs:
            return
        self._accumulators.store_all(addresses, key_groups, accumulators)
        self._pairs.store_all(pairs)
        self._timers.store_all(timers)
        for timer in fired_or_merged:  # by the running epoch
            self._timers.remove(timer)

    def _forget_kept(self) -> None:
        """Forget what is kept of finished epochs; the state has it."""
        for key in self._kept:
            if key not in self.running:
                self._stored.pop(key, None)
        self._has_others |= bool(self._kept)
        self._kept = {}
        self._kept_count = 0
        self._unwritten.clear()
        if not self.running:
            self._forget_due()

    def _forget_due(self) -> None:
        self._due.clear()
        self._times.clear()
        self._noted = 0

    @staticmethod
    def _size_of(sessions: Mapping[Hashable, Sessions], count: int) -> int:
        """Return the size of a number of sessions, by key."""
        sample = [one.accumulator for of_key in sample_of(sessions.values()) for one in islice(of_key, _SAMPLE_SESSIONS)]
        keys = scaled(map(object_size, sample_of(sessions)), len(sessions))
        return sys.getsizeof(sessions) + keys + scaled(map(object_size, sample), count) + _SESSION_BYTES * count

    @override
    def held_bytes(self) -> int:
        sessions = self._size_of(self.running, sum(map(len, self.running.values())))
        return sessions + _DUE_BYTES * len(self._due) + mapping_size(self.key_groups)
