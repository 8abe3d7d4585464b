"""The stored values of one state: a base table per key group, and layers of newer values while snapshots are open.

A snapshot freezes base and layers as they are. Writes then go to a new layer on top; layers are merged into the base only
when no snapshot is open, on the owner's thread, so that iterations never see changes. In a layer None means that the key was
removed; a stored value is never None. The open layer, or the base if there are no layers, isn't part of any view: stored
dicts and lists are changed in place there, and copied there from below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.kinds.list_states import ListChange
from pystate.core.state.kinds.map_states import MapChange, StoredMap
from pystate.core.state.kinds.overlay import ABSENT

MAX_LAYERS = 4
"""More layers than this are merged_layer into one, so that reads stay quick while snapshots overlap without end."""

GroupTable = dict[Hashable, Any]
Layer = dict[int, GroupTable]

_MISSING = object()
_EMPTY: Mapping[Hashable, Any] = MappingProxyType({})


def _open_layer() -> Layer:
    """Return a layer with a table for each key group that is written."""
    return defaultdict(dict)


class StateTable:
    """Key group -> key -> stored value, with frozen views.

    Attributes:
        base: A dict per key group of the range.
        layers: Newer values, oldest first; the last one is open for writing, the others are frozen.
        replaced: The replaced values for readers on other threads, see `views`; None if there are no readers.
    """

    __slots__ = ("base", "layers", "replaced", "stores_objects")

    def __init__(self, key_groups: KeyGroupRange) -> None:
        self.base: Layer = {group: {} for group in range(key_groups.start, key_groups.end + 1)}
        self.layers: list[Layer] = []
        self.replaced: GroupTable | None = None
        self.stores_objects = True

    def get(self, key: Hashable, key_group: int) -> Any:
        """Return the stored value; None if there is none."""
        if self.layers:  # only while a snapshot is being written
            for layer in reversed(self.layers):
                stored = layer.get(key_group, _EMPTY).get(key, _MISSING)
                if stored is not _MISSING:
                    return stored
        return self.base[key_group].get(key)

    known = get

    def get_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return the stored value of each key; None if there is none."""
        if self.layers:
            return list(map(self.get, keys, key_groups))
        base = self.base
        return [base[key_group].get(key) for key, key_group in zip(keys, key_groups, strict=True)]

    def peek(self, key: Hashable, key_group: int) -> Any:
        """Return the stored value, from any thread; None if there is none."""
        for layer in reversed(tuple(self.layers)):  # a copy: the owner merges layers meanwhile
            group = layer.get(key_group)
            stored = _MISSING if group is None else group.get(key, _MISSING)
            if stored is not _MISSING:
                return stored
        return self.base[key_group].get(key)

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Store (key, value) pairs; None removes. `key_groups` has the key group of each key."""
        if self.replaced is not None:
            changes = list(changes)
            for key, _ in changes:
                if key not in self.replaced:
                    self.replaced[key] = self.get(key, key_groups[key])
        if self.layers:
            top = self.layers[-1]
            for key, stored in changes:
                top[key_groups[key]][key] = stored
            return
        base = self.base
        for key, stored in changes:
            if stored is None:
                base[key_groups[key]].pop(key, None)
            else:
                base[key_groups[key]][key] = stored

    def put_each(self, changes: Collection[tuple[Hashable, Any]], key_groups: Sequence[int]) -> None:
        """Store (key, value) pairs; None removes. `key_groups` has the key group of each, in the same order."""
        if self.replaced is not None:
            self.put_all(changes, {key: group for (key, _), group in zip(changes, key_groups, strict=True)})
            return
        if self.layers:
            top = self.layers[-1]
            for (key, stored), key_group in zip(changes, key_groups, strict=True):
                top[key_group][key] = stored
            return
        base = self.base
        for (key, stored), key_group in zip(changes, key_groups, strict=True):
            if stored is None:
                base[key_group].pop(key, None)
            else:
                base[key_group][key] = stored

    def own(self, key: Hashable, key_group: int, copy: Callable[[Any], Any]) -> Any:
        """Return the stored value of a key, to be changed in place; None if there is none.

        While a view may be open, the value is copied the first time; later calls return that copy.
        """
        replaced = self.replaced
        if replaced is not None and key not in replaced:
            stored = self.get(key, key_group)
            if stored is None:
                replaced[key] = None
                return None
            self.put(key, key_group, copy(stored))  # which keeps the other in `replaced`
        base = self.base[key_group]
        if not self.layers:
            return base.get(key)
        group = self.layers[-1][key_group]
        if key in group:
            return group[key]
        stored = self.get(key, key_group)
        if stored is not None:
            stored = group[key] = copy(stored)
        return stored

    def put(self, key: Hashable, key_group: int, stored: Any) -> None:
        """Store one value; None removes."""
        self.put_all(((key, stored),), {key: key_group})

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (key, key group) of all stored values."""
        view = TableView(self.base, list(self.layers))
        for key_group in self.base:
            for key, _ in view.entries(key_group):
                yield key, key_group

    def group_keys(self, key_group: int) -> list[Hashable]:
        """Return the keys of a key group."""
        if not self.layers:
            return list(self.base[key_group])
        return [key for key, _ in TableView(self.base, list(self.layers)).entries(key_group)]

    def values(self) -> Iterator[Any]:
        """Iterate over all stored values."""
        view = TableView(self.base, list(self.layers))
        for key_group in self.base:
            for _, stored in view.entries(key_group):
                yield stored

    def forget(self, key: Hashable) -> None:
        """Do nothing: nothing is kept for the running epoch."""

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Do nothing: nothing is kept for the running epoch."""

    def freeze(self) -> TableView:
        """Return a view of the present values; later writes go to a new layer."""
        if self.layers and not self.layers[-1]:
            frozen = self.layers[:-1]
        else:
            frozen = list(self.layers)
            self.layers.append(_open_layer())
        return TableView(self.base, frozen)

    def merge(self) -> None:
        """Merge all layers into the base. Only while no view is open."""
        for layer in self.layers:
            _merge_into(self.base, layer, drop_removed=True)
        self.layers.clear()

    def merge_layers(self) -> None:
        """Merge frozen layers into one, with an open layer on top. Open views keep the old ones."""
        if len(self.layers) > MAX_LAYERS:
            merged_layer: Layer = {}
            for layer in self.layers:
                _merge_into(merged_layer, layer, drop_removed=False)
            # views share the values in the merged one, so none of them is owned
            self.layers[:] = [merged_layer, _open_layer()]

    def __len__(self) -> int:
        """Return the number of stored values."""
        count = sum(map(len, self.base.values()))
        merged_layer: Layer = {}
        for layer in self.layers:
            _merge_into(merged_layer, layer, drop_removed=False)
        for key_group, group in merged_layer.items():
            base = self.base[key_group]
            for key, stored in group.items():
                count += (stored is not None) - (key in base)
        return count


class TableView:
    """The content of a table at one moment. Thread-safe."""

    __slots__ = ("_base", "_layers")

    def __init__(self, base: Layer, layers: list[Layer]) -> None:
        self._base = base
        self._layers = layers

    @property
    def stored(self) -> int:
        """The number of keys with a value in the base, without changes in layers."""
        return sum(map(len, self._base.values()))

    def entries(self, key_group: int) -> Iterator[tuple[Hashable, Any]]:
        """Iterate over (key, stored value) of a key group."""
        base, layers = self._base[key_group], self._layers_of(key_group)
        return _over(base, layers) if layers else iter(base.items())

    def columns(self, key_group: int) -> tuple[Iterable[Hashable], Iterable[Any]]:
        """Return keys, and the stored values in the same order, of a key group."""
        base, layers = self._base[key_group], self._layers_of(key_group)
        if not layers:
            return base, base.values()
        merged = dict(_over(base, layers))
        return merged, merged.values()

    def _layers_of(self, key_group: int) -> list[GroupTable]:
        return [layer[key_group] for layer in self._layers if key_group in layer]


def _over(base: GroupTable, layers: list[GroupTable]) -> Iterator[tuple[Hashable, Any]]:
    newer: GroupTable = {}
    for layer in layers:
        newer.update(layer)
    for key, stored in base.items():
        if key not in newer:
            yield key, stored
    for key, stored in newer.items():
        if stored is not None:
            yield key, stored


def _merge_into(target: Layer, layer: Layer, *, drop_removed: bool) -> None:
    for key_group, group in layer.items():
        merged = target.get(key_group)
        if merged is None:
            merged = target[key_group] = {}
        merged.update(group)
        if drop_removed:
            for key, stored in group.items():
                if stored is None:
                    del merged[key]


_NO_ENTRIES: dict[Hashable, Any] = {}
_NO_ELEMENTS: list[Any] = []


class _TableStore:
    """The flushed values of one state in a table. Nothing is kept for the running epoch."""

    __slots__ = ("_table", "stores_objects")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self.stores_objects = True

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (key, key group) of all values."""
        return self._table.keys()

    def forget(self, key: Hashable) -> None:
        """Do nothing: nothing is kept for the running epoch."""

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Do nothing: nothing is kept for the running epoch."""


class HashMapMapStore(_TableStore):
    """The flushed maps of one state: internal map key -> stored form."""

    __slots__ = ()

    def open(self, key: Hashable, key_group: int) -> StoredMap:
        """Return the entries of a key."""
        stored: dict[Hashable, Any] = self._table.get(key, key_group) or _NO_ENTRIES
        return stored

    def put_all(self, changes: list[MapChange]) -> None:
        """Store the changes."""
        table = self._table
        for key, key_group, cleared, writes in changes:
            entries = None if cleared else table.own(key, key_group, dict)
            if entries is None:
                entries = {user_key: stored for user_key, stored in writes.items() if stored is not ABSENT}
                table.put(key, key_group, entries or None)
                continue
            for user_key, stored in writes.items():
                if stored is ABSENT:
                    entries.pop(user_key, None)
                else:
                    entries[user_key] = stored
            if not entries:
                table.put(key, key_group, None)


class HashMapListStore(_TableStore):
    """The flushed lists of one state: stored forms of the elements."""

    __slots__ = ()

    def get(self, key: Hashable, key_group: int) -> list[Any]:
        """Return the elements of a key."""
        elements: list[Any] = self._table.get(key, key_group) or _NO_ELEMENTS
        return elements

    def is_scattered(self, key: Hashable) -> bool:
        """Return False: a list is in one piece."""
        return False

    def put_all(self, changes: list[ListChange]) -> None:
        """Store the changes."""
        table = self._table
        for key, key_group, replaces, elements in changes:
            stored = None if replaces else table.own(key, key_group, list)
            if stored is None:
                table.put(key, key_group, elements or None)
            else:
                stored += elements
