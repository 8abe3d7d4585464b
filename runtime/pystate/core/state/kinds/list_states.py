"""List states over any backend: changes of the running epoch in an overlay per key, flushed elements in a store.

Elements that are only added are never read back: the store appends them. A list that was returned to user code is compared
at the end of the epoch with what was read, since it may have been changed in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.state import ListState
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.kinds.epoch_size import object_size, sample_of, scaled
from pystate.core.state.kinds.overlay import KeyStore, OverlayState
from pystate.core.state.values.serializers import TypeSerializer

_OVERLAY_BYTES = 200
"""The memory of a list in the overlay besides its elements: an object and up to three lists."""

_SAMPLE_ELEMENTS = 8


ListChange = tuple[Hashable, int, bool, list[Any]]
"""What an epoch did to the list of a key: the key, its key group, whether all flushed elements go (else the new ones are
appended), and stored forms of the elements. A plain tuple: making one of a class takes as long as the rest of a flush."""


class ListStore(KeyStore, Protocol):
    """The flushed lists of one state."""

    def get(self, key: Hashable, key_group: int, /) -> list[Any]:
        """Return the stored forms of a key's elements: objects of an immutable type, else bytes. Must not be modified."""

    def is_scattered(self, key: Hashable, /) -> bool:
        """Return whether a list that was read in this epoch should be rewritten in one piece."""

    def put_all(self, changes: list[ListChange]) -> None:
        """Store the changes."""


class _ListOverlay:
    """The running epoch of one key.

    Attributes:
        added: Elements added since `elements` was returned, or in the whole epoch.
        elements: The list returned to or set by user code; None as long as it is as stored.
        loaded: The stored forms of flushed elements; None if they were not read.
    """

    __slots__ = ("added", "elements", "group", "loaded")

    def __init__(self, group: int) -> None:
        self.group = group
        self.added: list[Any] = []
        self.elements: list[Any] | None = None
        self.loaded: list[Any] | None = None


class OverlayListState(OverlayState, ListState[Any]):
    """A list per key."""

    __slots__ = ("_lists", "_mutable", "_read", "_to_bytes")

    def __init__(self, name: str, context: KeyContext, serializer: TypeSerializer, store: ListStore) -> None:
        super().__init__(name, context, serializer, store)
        self._read: Callable[[Hashable, int], list[Any]] = store.get
        self._mutable = not serializer.immutable
        self._to_bytes = self._mutable or not store.stores_objects
        self._lists: dict[Hashable, _ListOverlay] = {}

    def _open(self) -> _ListOverlay:
        key = self._context.active_key
        overlay = self._lists[key] = _ListOverlay(self._group(key))
        return overlay

    @override
    def get(self) -> list[Any]:
        key = self._context.active_key
        overlay = self._lists.get(key) or self._open()
        elements = overlay.elements
        if elements is None:
            loaded = overlay.loaded = self._read(key, overlay.group)
            if self._mutable:
                elements = list(map(self._serializer.deserialize, loaded))
            else:
                elements = list(loaded)
            overlay.elements = elements
        if overlay.added:
            elements += overlay.added
            overlay.added = []
        return elements

    @override
    def add(self, value: Any) -> None:
        if value is None:
            raise self._no_element()
        value = self._checked(value)
        overlay = self._lists.get(self._context.active_key) or self._open()
        overlay.added.append(value)

    @override
    def add_all(self, values: list[Any]) -> None:
        checked = self._all_checked(values)
        overlay = self._lists.get(self._context.active_key) or self._open()
        overlay.added += checked

    @override
    def update(self, values: list[Any]) -> None:
        self._replace(self._all_checked(values))

    def clear(self) -> None:
        """Remove all elements of the current key."""
        self._replace([])

    def _replace(self, elements: list[Any]) -> None:
        overlay = self._lists.get(self._context.active_key) or self._open()
        overlay.elements = elements
        overlay.added = []

    def _all_checked(self, values: list[Any]) -> list[Any]:
        if values is None or isinstance(values, (str, bytes)):
            message = f"State {self._name!r} takes a list of elements here, not {values!r}."
            raise StateError(message)
        elements = list(values)
        if None in elements and any(element is None for element in elements):
            raise self._no_element()
        return list(map(self._checked, elements))

    def _no_element(self) -> StateError:
        message = f"None can't be an element of list state {self._name!r}."
        return StateError(message, hint="leave such elements out; clear() removes all")

    def take(self) -> list[Any] | None:
        """Remove and return the current key's elements in their held form; None if there are none."""
        elements = self._held_elements()
        if not elements:
            return None
        taken = self._sound(self._context.active_key, list(elements))
        self._replace([])
        return taken

    def merge(self, taken: Sequence[list[Any]]) -> None:
        """Add taken elements to the current key."""
        overlay = self._lists.get(self._context.active_key) or self._open()
        for elements in taken:
            overlay.added += elements

    def _held_elements(self) -> list[Any]:
        """Return the current key's elements in their held form."""
        return self.get()

    @override
    def touched_keys(self) -> list[tuple[Hashable, int]]:
        return [(key, overlay.group) for key, overlay in self._lists.items()]

    @override
    def holds(self, key: Hashable) -> bool:
        return key in self._lists

    @override
    def settle(self, key: Hashable) -> None:
        overlay = self._lists.get(key)
        if overlay is not None and self._change(key, overlay) is None:
            del self._lists[key]
            self._store.forget(key)

    @override
    def held_bytes(self) -> int:
        overlays = self._lists.values()
        if not overlays:
            return 0
        sample = sample_of(overlays)
        lists = [part for overlay in sample for part in (overlay.added, overlay.elements, overlay.loaded) if part]
        elements = [element for part in lists for element in part[:_SAMPLE_ELEMENTS]]
        count = sum([len(one.added) + len(one.elements or ()) + len(one.loaded or ()) for one in overlays])
        keys = sys.getsizeof(self._lists) + scaled(map(object_size, sample_of(self._lists)), len(overlays))
        kept: int = self._store.kept_bytes()
        return keys + _OVERLAY_BYTES * len(overlays) + scaled(map(object_size, elements), count) + 8 * count + kept

    def has_value(self) -> bool:
        """Return whether the current key has an element."""
        overlay = self._lists.get(self._context.active_key)
        return bool(overlay is not None and overlay.added) or bool(self.get())

    def prepare_flush(self) -> list[ListChange]:
        """Return the changes of the epoch, including in-place ones."""
        changes = []
        for key, overlay in self._lists.items():
            change = self._change(key, overlay)
            if change is not None:
                changes.append(change)
        return changes

    def _change(self, key: Hashable, overlay: _ListOverlay) -> ListChange | None:
        group = overlay.group
        if overlay.elements is None:
            return (key, group, False, self._added(key, overlay.added)) if overlay.added else None
        elements = overlay.elements + overlay.added if overlay.added else overlay.elements
        if overlay.loaded is None:
            return key, group, True, self._stored(key, elements)
        return self._compared(key, group, overlay.loaded, elements)

    def _compared(self, key: Hashable, group: int, loaded: list[Any], elements: list[Any]) -> ListChange | None:
        """Return the change from the read list to the present one."""
        count = len(loaded)
        rewrite = self._store.is_scattered(key)
        if self._mutable:
            stored = self._stored(key, elements)
            appended = stored[:count] == loaded
            new = stored[count:] if appended and not rewrite else stored
        else:
            appended = len(elements) >= count and all(map(is_, loaded, elements))
            new = self._stored(key, elements[count:] if appended and not rewrite else elements)
        if appended and not rewrite:
            return (key, group, False, new) if new else None
        return key, group, True, new

    def _stored(self, key: Hashable, elements: list[Any]) -> list[Any]:
        """Return stored forms of elements of a list that user code had access to, after checking them again."""
        if None in elements and any(element is None for element in elements):
            raise self._unkeepable(key, self._no_element())
        return self._added(key, elements if self._to_bytes else list(map(self._checked, elements)))

    def _sound(self, key: Hashable, elements: list[Any]) -> list[Any]:
        """Return elements of a list that user code had access to, checked as in `add`."""
        if None in elements and any(element is None for element in elements):
            raise self._unkeepable(key, self._no_element())
        return elements if self._mutable else list(map(self._checked, elements))

    def _added(self, key: Hashable, elements: list[Any]) -> list[Any]:
        """Return stored forms of checked elements."""
        if not self._to_bytes:
            return elements
        try:
            return list(map(self._serializer.serialize, elements))
        except StateError as error:
            raise self._unkeepable(key, error) from error

    @override
    def apply_flush(self, changes: list[ListChange]) -> None:
        self._store.put_all(changes)

    @override
    def drop_epoch(self) -> None:
        self._lists.clear()
        self._store.end_epoch()
