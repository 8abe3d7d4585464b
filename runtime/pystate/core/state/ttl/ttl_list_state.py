"""List state with a time to live per element."""

from __future__ import annotations

from collections.abc import Hashable
from operator import is_
from typing import Any

from pystate.common.overrides import override
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.kinds.list_states import ListChange, ListStore, OverlayListState
from pystate.core.state.kinds.overlay import value_check
from pystate.core.state.ttl.ttl_serializer import TtlSerializer
from pystate.core.state.ttl.ttl_settings import TtlSettings, TtlState

Pair = tuple[int, Any]


class _HandedOut:
    """The list of a key that was returned to user code.

    Attributes:
        pairs: The (time, value) pairs, as the list state has them.
        values: The list that user code has, and may change.
        seen: What was in it when it was handed out: the values of the first pairs.
        oldest: Not above the time of any pair.
        time: When it was handed out, which is the time of what is put into it.
    """

    __slots__ = ("oldest", "pairs", "seen", "time", "values")

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs
        self.values: list[Any] = []
        self.seen: list[Any] = []
        self.oldest = 0
        self.time = 0

    def take_changes(self) -> None:
        """Apply changes of user code to the pairs: existing elements keep their times."""
        values, seen, pairs = self.values, self.seen, self.pairs
        count = len(seen)
        if len(values) < count or not all(map(is_, seen, values)):
            times: dict[int, list[Pair]] = {}
            for pair in reversed(pairs[:count]):
                times.setdefault(id(pair[1]), []).append(pair)
            pairs[:count] = [times[id(value)].pop() if times.get(id(value)) else (self.time, value) for value in values]
        elif len(values) > count:
            pairs[count:count] = [(self.time, value) for value in values[count:]]
        else:
            return
        self.seen = list(values)

    def show(self) -> None:
        """Set the values from the pairs."""
        self.values[:] = [value for _, value in self.pairs]
        self.seen = list(self.values)
        self.oldest = min((time for time, _ in self.pairs), default=self.time)


class TtlListState(OverlayListState, TtlState):
    """A list of (time, value) pairs per key, which user code sees as a list of values.

    What user code puts into a list it was handed has the time of the `get` that handed it out last.
    """

    __slots__ = ("_accesses", "_clock", "_handed_out", "_millis", "_refresh", "_show_expired", "_writes")

    def __init__(
        self, name: str, context: KeyContext, serializer: TtlSerializer, store: ListStore, settings: TtlSettings
    ) -> None:
        super().__init__(name, context, serializer, store)
        self._checked = value_check(name, serializer.values)
        self._handed_out: dict[Hashable, _HandedOut] = {}
        self._millis = settings.millis
        self._refresh = settings.refresh_on_read
        self._show_expired = settings.show_expired
        self._clock = settings.clock
        self._accesses = self._writes = 0

    @override
    def get(self) -> list[Any]:
        self._accesses += 1
        pairs = self._current_pairs()
        key = self._context.active_key
        handed = self._handed_out.get(key)
        if handed is None:
            handed = self._handed_out[key] = _HandedOut(pairs)
        now = handed.time = self._clock()
        deadline = now - self._millis
        stale = handed.oldest <= deadline or (self._refresh and handed.oldest < now)
        if stale or len(pairs) != len(handed.seen):
            self._age(pairs, deadline, now)
            handed.show()
            if pairs and self._show_expired and all(time <= deadline for time, _ in pairs):
                self._replace([])  # all have expired and are returned for the last time
        return handed.values

    def _current_pairs(self) -> list[Pair]:
        """Return the pairs of the current key, including in-place changes of user code."""
        handed = self._handed_out.get(self._context.active_key)
        if handed is not None:
            handed.take_changes()
        return super().get()

    def _age(self, pairs: list[Pair], deadline: int, now: int) -> None:
        if not self._show_expired:
            living = [pair for pair in pairs if pair[0] > deadline]
            if len(living) < len(pairs):
                pairs[:] = living
        if self._refresh:
            pairs[:] = [(now, pair[1]) if deadline < pair[0] < now else pair for pair in pairs]

    @override
    def add(self, value: Any) -> None:
        if value is None:
            raise self._no_element()
        self._accesses += 1
        pair = self._clock(), self._checked(value)
        overlay = self._lists.get(self._context.active_key) or self._open()
        overlay.added.append(pair)

    def _all_checked(self, values: list[Any]) -> list[Any]:
        self._accesses += 1
        now = self._clock()
        return [(now, value) for value in super()._all_checked(values)]

    @override
    def clear(self) -> None:
        self._accesses += 1
        super().clear()

    def _replace(self, elements: list[Any]) -> None:
        super()._replace(elements)
        self._handed_out.pop(self._context.active_key, None)

    def has_value(self) -> bool:
        """Return whether the current key has a visible element; doesn't count as an access."""
        pairs = self._current_pairs()
        if self._show_expired:
            return bool(pairs)
        deadline = self._clock() - self._millis
        return any(time > deadline for time, _ in pairs)

    @override
    def settle(self, key: Hashable) -> None:
        handed = self._handed_out.get(key)
        if handed is not None:
            handed.take_changes()
        super().settle(key)
        if key not in self._lists:
            self._handed_out.pop(key, None)

    @override
    def prepare_flush(self) -> list[ListChange]:
        for handed in self._handed_out.values():
            handed.take_changes()
        changes = super().prepare_flush()
        self._writes += len(changes)
        return changes

    def _held_elements(self) -> list[Pair]:
        self._accesses += 1
        return self._current_pairs()

    def _stored(self, key: Hashable, elements: list[Any]) -> list[Any]:
        if any(value is None for _, value in elements):
            raise self._unkeepable(key, self._no_element())
        checked = self._checked
        return self._added(key, elements if self._to_bytes else [(time, checked(value)) for time, value in elements])

    def _sound(self, key: Hashable, elements: list[Any]) -> list[Any]:
        if any(value is None for _, value in elements):
            raise self._unkeepable(key, self._no_element())
        checked = self._checked
        return elements if self._mutable else [(time, checked(value)) for time, value in elements]

    @override
    def drop_epoch(self) -> None:
        super().drop_epoch()
        self._handed_out.clear()
