"""Map states over any backend: entries of the running epoch in an overlay per key, flushed ones in a store.

In an overlay `ABSENT` means removed; None is a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.common.type_info import TypeKind
from pystate.core.api.state import MapState, map_entries
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.epoch_size import object_size, sample_of, scaled
from pystate.core.state.kinds.overlay import ABSENT, EpochBuffer, KeyStore, OverlayState
from pystate.core.state.values.serializers import TypeSerializer

_OVERLAY_BYTES = 600
"""The memory of a map in the overlay besides its entries: objects, and up to three dicts."""

_ENTRY_BYTES = 60
"""The memory of a dict entry besides its key and value."""

_SAMPLE_ENTRIES = 8

_UNKNOWN = object()


class StoredMap(Protocol):
    """The flushed entries of one key, by internal map key, such as a dict. Valid until the epoch ends."""

    def get(self, user_key: Hashable, default: Any, /) -> Any:
        """Return the stored form of a value; `default` if there is no entry."""

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate lazily over the map keys."""

    def items(self) -> Iterable[tuple[Hashable, Any]]:
        """Iterate lazily over (map key, stored form)."""


MapChange = tuple[Hashable, int, bool, dict[Hashable, Any]]
"""What an epoch did to the map of a key: the key, its key group, whether all flushed entries go, and what is written (map
key -> stored form, or `ABSENT` to remove the entry). A plain tuple, as `ListChange` is."""


class MapStore(KeyStore, Protocol):
    """The flushed maps of one state."""

    def open(self, key: Hashable, key_group: int, /) -> StoredMap:
        """Return the entries of a key, without reading any."""

    def put_all(self, changes: list[MapChange]) -> None:
        """Store the changes."""


_NOTHING: Mapping[Hashable, Any] = {}


class _MapOverlay:
    """The running epoch of one key.

    Attributes:
        entries: Map key -> object, or `ABSENT` if it was removed. Other entries are as stored.
        live: The number of entries that aren't `ABSENT`.
        cleared: Whether the stored entries were cleared; `stored` is then empty.
        loaded: Map key -> the bytes from which a mutable value was created.
    """

    __slots__ = ("cleared", "entries", "group", "live", "loaded", "stored")

    def __init__(self, group: int, stored: Any) -> None:
        self.group = group
        self.stored = stored
        self.entries: dict[Hashable, Any] = {}
        self.loaded: dict[Hashable, bytes] = {}
        self.live = 0
        self.cleared = False


class OverlayMapState(OverlayState, MapState[Any, Any]):
    """A map per key.

    Args:
        name: See `OverlayState`.
        context: See `OverlayState`.
        serializer: The serializer of the values, including None.
        store: See `OverlayState`.
        user_keys: The codec of the map keys.

    Attributes:
        front: The operator's buffer above the overlay, which a value state of the operator has, too; None if there is none.
    """

    __slots__ = ("_epoch", "_external", "_internal", "_maps", "_mutable", "_open_map", "_plain_key", "_to_bytes", "front")

    def __init__(
        self, name: str, context: KeyContext, serializer: TypeSerializer, store: MapStore, user_keys: KeyCodec
    ) -> None:
        super().__init__(name, context, serializer, store)
        self._open_map: Callable[[Hashable, int], Any] = store.open
        self._internal = user_keys.internal
        self._external = user_keys.external
        self._plain_key = str if user_keys.key_type is None or user_keys.key_type.kind is TypeKind.STRING else None
        self._mutable = not serializer.immutable
        self._to_bytes = self._mutable or not store.stores_objects
        self._maps: dict[Hashable, _MapOverlay] = {}
        self._epoch = 0
        self.front: EpochBuffer | None = None

    def _open(self) -> _MapOverlay:
        key = self._context.active_key
        group = self._group(key)
        overlay = self._maps[key] = _MapOverlay(group, self._open_map(key, group))
        return overlay

    def _user_key(self, key: Any) -> Hashable:
        try:
            return self._internal(key)
        except StateError as error:
            message = f"State {self._name!r} can't take this map key: {error.message}"
            raise StateError(message, hint="convert it, or give the state another key_type_info") from None

    @override
    def get(self, key: Any) -> Any:
        overlay = self._maps.get(self._context.active_key) or self._open()
        user_key = key if type(key) is self._plain_key else self._user_key(key)
        value = overlay.entries.get(user_key, _UNKNOWN)
        if value is _UNKNOWN:
            value = overlay.stored.get(user_key, ABSENT)
            if self._mutable and value is not ABSENT:
                return self._load(overlay, user_key, value)
        return None if value is ABSENT else value

    def _load(self, overlay: _MapOverlay, user_key: Hashable, data: bytes) -> Any:
        value = overlay.entries[user_key] = self._serializer.deserialize(data)
        overlay.loaded[user_key] = data
        overlay.live += 1
        return value

    @override
    def put(self, key: Any, value: Any) -> None:
        if value is not None:
            value = self._checked(value)
        overlay = self._maps.get(self._context.active_key) or self._open()
        self._put(overlay, key, value)

    def _put(self, overlay: _MapOverlay, key: Any, value: Any) -> None:
        user_key = key if type(key) is self._plain_key else self._user_key(key)
        entries = overlay.entries
        if entries.get(user_key, ABSENT) is ABSENT:
            overlay.live += 1
        entries[user_key] = value

    @override
    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        checked = self._checked
        pairs = [(key, None if value is None else checked(value)) for key, value in map_entries(dict_value)]
        overlay = self._maps.get(self._context.active_key) or self._open()
        for key, value in pairs:
            self._put(overlay, key, value)

    @override
    def remove(self, key: Any) -> None:
        overlay = self._maps.get(self._context.active_key) or self._open()
        user_key = key if type(key) is self._plain_key else self._user_key(key)
        entries = overlay.entries
        if entries.get(user_key, ABSENT) is not ABSENT:
            overlay.live -= 1
        if overlay.cleared:
            entries.pop(user_key, None)
        else:
            entries[user_key] = ABSENT

    @override
    def contains(self, key: Any) -> bool:
        overlay = self._maps.get(self._context.active_key) or self._open()
        user_key = key if type(key) is self._plain_key else self._user_key(key)
        value = overlay.entries.get(user_key, _UNKNOWN)
        return (overlay.stored.get(user_key, ABSENT) if value is _UNKNOWN else value) is not ABSENT

    def is_empty(self) -> bool:
        """Return whether the map is empty. Reads at most up to the first existing entry."""
        overlay = self._maps.get(self._context.active_key) or self._open()
        entries = overlay.entries  # without a live one they are all removed
        return not overlay.live and all(user_key in entries for user_key in overlay.stored)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the present entries, in no particular order."""
        overlay = self._maps.get(self._context.active_key) or self._open()
        return self._items(overlay.stored, dict(overlay.entries), self._epoch)

    def _items(self, stored: StoredMap, entries: dict[Hashable, Any], epoch: int) -> Iterator[tuple[Any, Any]]:
        self._check_epoch(epoch)
        external, mutable, deserialize = self._external, self._mutable, self._serializer.deserialize
        for user_key, value in stored.items():
            if user_key not in entries:
                yield external(user_key), deserialize(value) if mutable else value
                self._check_epoch(epoch)
        for user_key, value in entries.items():
            if value is not ABSENT:
                yield external(user_key), self._copy(user_key, value) if mutable else value
                self._check_epoch(epoch)

    def _copy(self, user_key: Hashable, value: Any) -> Any:
        """Return the copy of a mutable value for iterations.

        What is in the store comes as a copy, too: whether a change of it counts must not depend on where epochs end.
        """
        try:
            return self._serializer.deserialize(self._serializer.serialize(value))
        except StateError as error:
            raise self._unkeepable(self._context.active_key, error, self._place_of(user_key)) from error

    def _place_of(self, user_key: Hashable) -> str:
        return f", map key {self._external(user_key)!r},"

    def keys(self) -> Iterator[Any]:
        """Iterate over the present map keys."""
        overlay = self._maps.get(self._context.active_key) or self._open()
        return self._keys(overlay.stored, dict(overlay.entries), self._epoch)

    def _keys(self, stored: StoredMap, entries: dict[Hashable, Any], epoch: int) -> Iterator[Any]:
        self._check_epoch(epoch)
        external = self._external
        for user_key in stored:
            if user_key not in entries:
                yield external(user_key)
                self._check_epoch(epoch)
        for user_key, value in entries.items():
            if value is not ABSENT:
                yield external(user_key)
                self._check_epoch(epoch)

    def values(self) -> Iterator[Any]:
        """Iterate over the present values."""
        return (value for _, value in self.items())

    def _check_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            message = f"An iteration over map state {self._name!r} went on after its epoch had ended, or was moved to disk."
            raise StateError(message, hint="iterate to the end, or not at all, while one element is processed")

    def clear(self) -> None:
        """Remove all entries of the current key."""
        overlay = self._maps.get(self._context.active_key) or self._open()
        overlay.entries = {}
        overlay.loaded = {}
        overlay.live = 0
        overlay.cleared = True
        overlay.stored = _NOTHING

    def store_all(self, maps: Iterable[tuple[Hashable, int, Mapping[Any, Any]]]) -> None:
        """Store entries of keys that aren't in the overlay, as of a finished epoch.

        Args:
            maps: Keys, their key groups, and entries, which must be of the type; `ABSENT` for those to remove.
        """
        internal, stored = self._internal, self._serializer.serialize if self._to_bytes else self._checked
        self._store.put_all(
            [
                (
                    key,
                    group,
                    False,
                    {internal(one): value if value is ABSENT else stored(value) for one, value in entries.items()},
                )
                for key, group, entries in maps
            ]
        )

    @override
    def touched_keys(self) -> list[tuple[Hashable, int]]:
        return [(key, overlay.group) for key, overlay in self._maps.items()]

    @override
    def holds(self, key: Hashable) -> bool:
        return key in self._maps

    @override
    def settle(self, key: Hashable) -> None:
        overlay = self._maps.get(key)
        if overlay is not None and not overlay.cleared and not self._writes_of(key, overlay):
            del self._maps[key]

    @override
    def held_bytes(self) -> int:
        overlays = self._maps.values()
        if not overlays:
            return 0
        entries = [item for overlay in sample_of(overlays) for item in islice(overlay.entries.items(), _SAMPLE_ENTRIES)]
        count = sum([len(overlay.entries) for overlay in overlays])
        loaded = sum([len(overlay.loaded) for overlay in overlays]) if self._mutable else 0
        keys = sys.getsizeof(self._maps) + scaled(map(object_size, sample_of(self._maps)), len(overlays))
        of_entries = scaled((object_size(user_key) + object_size(value) for user_key, value in entries), count + loaded)
        kept: int = self._store.kept_bytes()
        return keys + _OVERLAY_BYTES * len(overlays) + of_entries + _ENTRY_BYTES * (count + loaded) + kept

    def has_value(self) -> bool:
        """Return whether the current key's map has an entry."""
        return not self.is_empty()

    def prepare_flush(self) -> list[MapChange]:
        """Return the changes of the epoch, including in-place ones."""
        if self.front is not None:
            self.front.settle()
        changes = []
        for key, overlay in self._maps.items():
            writes = self._writes_of(key, overlay)
            if writes or overlay.cleared:
                changes.append((key, overlay.group, overlay.cleared, writes))
        return changes

    def _writes_of(self, key: Hashable, overlay: _MapOverlay) -> dict[Hashable, Any]:
        return self._changed_bytes(key, overlay) if self._to_bytes else overlay.entries

    def _changed_bytes(self, key: Hashable, overlay: _MapOverlay) -> dict[Hashable, Any]:
        writes: dict[Hashable, Any] = {}
        serialize, loaded = self._serializer.serialize, overlay.loaded
        for user_key, value in overlay.entries.items():
            if value is ABSENT:
                writes[user_key] = ABSENT
                continue
            try:
                data = serialize(value)
            except StateError as error:
                raise self._unkeepable(key, error, self._place_of(user_key)) from error
            if loaded.get(user_key) != data:
                writes[user_key] = data
        return writes

    @override
    def apply_flush(self, changes: list[MapChange]) -> None:
        self._store.put_all(changes)

    @override
    def drop_epoch(self) -> None:
        self._epoch += 1
        self._maps.clear()
        self._store.end_epoch()
