"""Maps and lists in a table: a dict or a list per key, changed in place unless a snapshot may read it."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import Any

from pystate.core.state.hashmap.hashmap_table import StateTable
from pystate.core.state.kinds.list_states import ListChange
from pystate.core.state.kinds.map_states import MapChange, StoredMap
from pystate.core.state.kinds.overlay import ABSENT

_NO_ENTRIES: dict[Hashable, Any] = {}
_NO_ELEMENTS: list[Any] = []


class HashMapMapStore:
    """The flushed maps of one state: internal map key -> stored form."""

    __slots__ = ("_table", "stores_objects")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self.stores_objects = True

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

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (key, key group) of all maps."""
        return self._table.keys()

    def forget(self, key: Hashable) -> None:
        """Do nothing: nothing is kept for the running epoch."""

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Do nothing: nothing is kept for the running epoch."""


class HashMapListStore:
    """The flushed lists of one state: stored forms of the elements."""

    __slots__ = ("_table", "stores_objects")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self.stores_objects = True

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

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (key, key group) of all lists."""
        return self._table.keys()

    def forget(self, key: Hashable) -> None:
        """Do nothing: nothing is kept for the running epoch."""

    def kept_bytes(self) -> int:
        """Return 0."""
        return 0

    def end_epoch(self) -> None:
        """Do nothing: nothing is kept for the running epoch."""
