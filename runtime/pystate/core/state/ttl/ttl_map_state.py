"""Map state with a time to live per entry."""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping
from typing import Any

from pystate.common.overrides import override
from pystate.core.api.state import MapState, map_entries
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.map_states import MapChange, MapStore, OverlayMapState
from pystate.core.state.ttl.ttl_pairs_state import TtlPairsState
from pystate.core.state.ttl.ttl_serializer import TtlSerializer
from pystate.core.state.ttl.ttl_settings import TtlSettings

MAX_REMOVED = 1_000
"""An iteration removes this many expired entries and passes over the others: what it removes is kept in memory."""


class TtlMapState(TtlPairsState[OverlayMapState], MapState[Any, Any]):
    """A map per key, as pairs (time, value) in a plain map state.

    Asking whether an entry is there, and iterating over it, is reading it. An iteration has the time of its beginning.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        context: KeyContext,
        serializer: TtlSerializer,
        store: MapStore,
        user_keys: KeyCodec,
        settings: TtlSettings,
    ) -> None:
        pairs = OverlayMapState(name, context, serializer, store, user_keys)
        super().__init__(name, context, serializer, store, pairs, settings)

    def _access(self, key: Any) -> tuple[int, Any] | None:
        """Return the visible pair of a map key."""
        self._accesses += 1
        pair: tuple[int, Any] | None = self._pairs.get(key)
        if pair is None:
            return None
        now = self._clock()
        if pair[0] + self._millis <= now:
            self._pairs.remove(key)
            return pair if self._show_expired else None
        if self._refresh and pair[0] < now:
            self._pairs.put(key, (now, pair[1]))
        return pair

    @override
    def get(self, key: Any) -> Any:
        pair = self._access(key)
        return None if pair is None else pair[1]

    @override
    def contains(self, key: Any) -> bool:
        return self._access(key) is not None

    @override
    def put(self, key: Any, value: Any) -> None:
        self._accesses += 1
        self._pairs.put(key, (self._clock(), None if value is None else self._check_value(value)))

    @override
    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._accesses += 1
        check, now = self._check_value, self._clock()
        pairs = {key: (now, None if value is None else check(value)) for key, value in map_entries(dict_value)}
        self._pairs.put_all(pairs)

    @override
    def remove(self, key: Any) -> None:
        self._accesses += 1
        self._pairs.remove(key)

    def clear(self) -> None:
        """Remove all entries of the current key."""
        self._accesses += 1
        self._pairs.clear()

    def is_empty(self) -> bool:
        """Return whether the map has no visible entry. Reads at most up to the first visible one."""
        self._accesses += 1
        return not self.has_value()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the present entries, in no particular order."""
        self._accesses += 1
        context = self._context
        return self._visible(self._pairs.items(), context.active_key, context.active_key_group, self._clock())

    def keys(self) -> Iterator[Any]:
        """Iterate over the present map keys."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        """Iterate over the present values."""
        return (value for _, value in self.items())

    def _visible(
        self, entries: Iterator[tuple[Any, Any]], key: Hashable, key_group: int, now: int
    ) -> Generator[tuple[Any, Any], None, None]:
        removed = 0
        for user_key, (time, value) in entries:
            if time + self._millis <= now:
                if removed < MAX_REMOVED:
                    self._settle(key, key_group, user_key, now)
                    removed += 1
                if self._show_expired:
                    yield user_key, value
                continue
            if self._refresh and time < now:
                self._settle(key, key_group, user_key, now)
            yield user_key, value

    def _settle(self, key: Hashable, key_group: int, user_key: Any, now: int) -> None:
        """Remove or refresh an entry reached by an iteration, which may have been written meanwhile."""
        context = self._context
        before = context.active_key, context.active_key_group
        context.active_key, context.active_key_group = key, key_group
        try:
            pair = self._pairs.get(user_key)
            if pair is None:
                return
            if pair[0] + self._millis <= now:
                self._pairs.remove(user_key)
            elif self._refresh and pair[0] < now:
                self._pairs.put(user_key, (now, pair[1]))
        finally:
            context.active_key, context.active_key_group = before

    def has_value(self) -> bool:
        """Return whether the current key's map has a visible entry; doesn't count as an access."""
        if self._show_expired:
            return not self._pairs.is_empty()
        deadline = self._clock() - self._millis
        return any(time > deadline for _, (time, _) in self._pairs.items())

    @override
    def _count(self, changes: Collection[MapChange]) -> int:
        return sum(len(writes) for _, _, _, writes in changes)
