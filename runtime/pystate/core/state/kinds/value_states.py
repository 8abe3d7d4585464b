"""Value states over any backend: the running epoch in an overlay of objects, flushed values in a store.

`value()` and `update()` run at least once per record, so they are performance-critical. In an overlay None means removed:
user code can't store None, and absent values are read as None.
"""

from __future__ import annotations

import contextlib
import sys
from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.state import ValueState
from pystate.core.state.keys.key_context import NO_KEY, KeyContext
from pystate.core.state.kinds.epoch_size import mapping_size
from pystate.core.state.kinds.overlay import EpochBuffer, KeyStore, OverlayState
from pystate.core.state.values.serializers import TypeSerializer

_MISSING = object()

_QUICK_INTEGER = (1 << 30) - 1
"""Integers up to here are one digit to Python, which compares them quickest; counters seldom get beyond."""


class ValueStore(KeyStore, Protocol):
    """The flushed values of one state, in the backend's form."""

    def get(self, key: Hashable, key_group: int, /) -> Any:
        """Return the value; None if there is none. An immutable one is an object, a mutable one is bytes."""

    def get_all(self, keys: Sequence[Hashable], key_groups: Sequence[int], /) -> list[Any]:
        """Return a new list of the results of `get` for the keys."""

    def known(self, key: Hashable, key_group: int, /) -> Any:
        """Return a mutable value's bytes if they are known; else something that doesn't equal any bytes."""

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Store (key, stored form) pairs; None removes. `key_groups` has the key group of each key."""

    def put_each(self, changes: Collection[tuple[Hashable, Any]], key_groups: Sequence[int]) -> None:
        """Store (key, stored form) pairs; None removes. `key_groups` has the key group of each, in the same order."""


class OverlayValueState(OverlayState, ValueState[Any]):
    """The base of value states: the overlay of the running epoch, whose values are the objects that user code sees.

    Attributes:
        front: The operator's buffer above the overlay; None if there is none.
    """

    __slots__ = ("_by_key", "_order", "_overlay", "front")

    def __init__(self, name: str, context: KeyContext, serializer: TypeSerializer, store: ValueStore) -> None:
        super().__init__(name, context, serializer, store)
        self._overlay: dict[Hashable, Any] = {}  # one dict for good, see `overlay`
        self._order: list[int] = []  # key group of each key in the overlay, in its order; a dict would take twice as long
        self._by_key: dict[Hashable, int] | None = None  # the same by key, once a key has left the overlay
        self.front: EpochBuffer | None = None

    @override
    def update(self, value: Any) -> None:
        self.update_checked(None if value is None else self._checked(value))

    def update_checked(self, value: Any) -> None:
        """Set the current key's value, which must have been checked; None removes."""
        key = self._context.active_key
        if key not in self._overlay:
            self._touch(key)
        self._overlay[key] = value

    @override
    def clear(self) -> None:
        self.update_checked(None)

    def take(self) -> Any:
        """Remove the current key's value and return it; None if there is none."""
        value = self.value()
        if value is not None:
            self.clear()
        return value

    @property
    def overlay(self) -> dict[Hashable, Any]:
        """The values of the epoch by key; None for removed ones. Keys set by `hold` may be written directly."""
        return self._overlay

    def checked(self, value: Any) -> Any:
        """Return a value in the stored form.

        Raises:
            StateError: It isn't of the type.
        """
        return self._checked(value)

    def hold(self, key: Hashable, key_group: int, value: Any) -> None:
        """Set the value of any key; None removes. The value must have been checked."""
        if key not in self._overlay:
            if key_group not in self._owned_groups:
                raise self._foreign_group(key_group)
            self._note(key, key_group)
        self._overlay[key] = value

    def hold_all(self, keys: Sequence[Hashable], key_groups: Sequence[int], values: Iterable[Any]) -> None:
        """Set the values of many keys, see `hold`."""
        if not self._owned_groups.issuperset(key_groups):
            raise self._foreign_group(next(group for group in key_groups if group not in self._owned_groups))
        overlay, before = self._overlay, len(self._overlay)
        overlay.update(zip(keys, values, strict=True))
        if self._by_key is not None:
            self._by_key.update(zip(keys, key_groups, strict=True))
        elif len(overlay) - before == len(keys):
            self._order += key_groups
        else:
            group_of = dict(zip(keys, key_groups, strict=True))
            self._order += map(group_of.__getitem__, islice(overlay, before, None))

    def store_all(self, keys: Sequence[Hashable], key_groups: Sequence[int], values: Iterable[Any]) -> None:
        """Store the values of keys that aren't in the overlay, as of a finished epoch; None removes."""
        if not self._store.stores_objects:
            bytes_of = self._bytes_of
            values = [None if value is None else bytes_of(key, value) for key, value in zip(keys, values, strict=True)]
        self._store.put_all(list(zip(keys, values, strict=True)), dict(zip(keys, key_groups, strict=True)))

    def let_go(self, key: Hashable) -> None:
        """Remove the value of a key that isn't in the store, only from the overlay."""
        self._remove(key)

    def _remove(self, key: Hashable) -> None:
        groups = self._groups()
        del self._overlay[key], groups[key]

    def _groups(self) -> dict[Hashable, int]:
        """Return the key group of each key in the overlay, maintained from now on."""
        if self._by_key is None:
            self._by_key = dict(zip(self._overlay, self._order, strict=True))
        return self._by_key

    def _note(self, key: Hashable, key_group: int) -> None:
        """Record the key group of a key that comes into the overlay next."""
        if self._by_key is None:
            self._order.append(key_group)
        else:
            self._by_key[key] = key_group

    @abstractmethod
    def load(self, key: Hashable, key_group: int) -> Any:
        """Return the value of a key that isn't in the overlay; None if there is none."""

    def load_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return the results of `load` for the keys."""
        return list(map(self.load, keys, key_groups))

    def _touch(self, key: Hashable) -> None:
        group = self._context.active_key_group
        if key is NO_KEY or group not in self._owned_groups:
            self._group(key)  # raises
        self._note(key, group)

    def read_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return the values of some keys, from the overlay or the store; None if there is none."""
        if not self._overlay:
            return self.load_all(keys, key_groups)
        found = list(map(self._overlay.get, keys, repeat(_MISSING)))
        unknown = [place for place, value in enumerate(found) if value is _MISSING]
        loaded = self.load_all([keys[place] for place in unknown], [key_groups[place] for place in unknown])
        for place, value in zip(unknown, loaded, strict=True):
            found[place] = value
        return found

    @property
    def held(self) -> Mapping[Hashable, Any]:
        """The values in the overlay, by key."""
        return self._overlay

    @override
    def touched_keys(self) -> list[tuple[Hashable, int]]:
        return list(self._groups().items())

    @override
    def holds(self, key: Hashable) -> bool:
        return key in self._overlay

    @override
    def settle(self, key: Hashable) -> None:
        if key not in self._overlay:
            self._store.forget(key)

    @override
    def held_bytes(self) -> int:
        kept: int = self._store.kept_bytes()
        buffered = 0 if self.front is None else self.front.held_bytes()
        return mapping_size(self._overlay) + sys.getsizeof(self._order) + kept + buffered

    @override
    def has_value(self) -> bool:
        return self.value() is not None

    @override
    def apply_flush(self, changes: Collection[tuple[Hashable, Any]]) -> None:
        self._store.put_all(changes, self._groups())
        if self.front is not None:
            self.front.commit()

    @override
    def drop_epoch(self) -> None:
        if self.front is not None:
            self.front.drop()
        self._overlay.clear()
        self._order.clear()
        self._by_key = None
        self._store.end_epoch()

    def _bytes_of(self, key: Hashable, value: Any) -> bytes:
        try:
            return self._serializer.serialize(value)
        except StateError as error:
            raise self._unkeepable(key, error) from error


class ImmutableValueState(OverlayValueState):
    """A value state of immutable values, which are shared by overlay, store and user code."""

    __slots__ = ("_exact_type", "_get")

    def __init__(self, name: str, context: KeyContext, serializer: TypeSerializer, store: ValueStore) -> None:
        super().__init__(name, context, serializer, store)
        self._exact_type = serializer.exact_type
        self._get = store.get

    @override
    def value(self) -> Any:
        context = self._context
        key = context.active_key
        value = self._overlay.get(key, _MISSING)
        if value is not _MISSING:
            return value
        group = context.active_key_group
        if key is NO_KEY or group not in self._owned_groups:
            self._group(key)  # raises
        return self._get(key, group)

    @override
    def load(self, key: Hashable, key_group: int) -> Any:
        return self._store.get(key, key_group)

    @override
    def load_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        found: list[Any] = self._store.get_all(keys, key_groups)
        return found

    @override
    def update(self, value: Any) -> None:
        if type(value) is not self._exact_type and value is not None:
            value = self._checked(value)
        key, overlay = self._context.active_key, self._overlay
        if key not in overlay:
            self._touch(key)
        overlay[key] = value

    def prepare_flush(self) -> Collection[tuple[Hashable, Any]]:
        """Return the changes of the epoch; valid until `drop_epoch`."""
        if self.front is not None:
            self.front.settle()
        if self._store.stores_objects:
            return self._overlay.items()  # no copy: making one is a third of what it takes to store them
        values = list(self._overlay.values())
        if None not in values or all(value is not None for value in values):
            with contextlib.suppress(StateError):  # checked one by one, the error names the key
                return list(zip(self._overlay, self._serializer.serialize_all(values), strict=True))
        return [(key, None if value is None else self._bytes_of(key, value)) for key, value in self._overlay.items()]

    @override
    def apply_flush(self, changes: Collection[tuple[Hashable, Any]]) -> None:
        if self._by_key is not None:
            super().apply_flush(changes)
            return
        self._store.put_each(changes, self._order)
        if self.front is not None:
            self.front.commit()


class IntegerValueState(ImmutableValueState):
    """As `ImmutableValueState`, with an inlined range check for bounded integer types."""

    __slots__ = ("_high", "_low")

    def __init__(self, name: str, context: KeyContext, serializer: TypeSerializer, store: ValueStore) -> None:
        super().__init__(name, context, serializer, store)
        low, high = serializer.integer_range or (0, -1)
        self._low, self._high = max(low, -_QUICK_INTEGER), min(high, _QUICK_INTEGER)

    @override
    def update(self, value: Any) -> None:
        if (type(value) is not int or value > self._high or value < self._low) and value is not None:
            self._checked(value)  # which looks at the whole range
        key, overlay = self._context.active_key, self._overlay
        if key not in overlay:
            self._touch(key)
        overlay[key] = value


class MutableValueState(OverlayValueState):
    """A value state of mutable values, which are stored as bytes; each epoch's first access creates a new object.

    Objects returned to user code are written back at the end of the epoch, if their bytes changed.
    """

    __slots__ = ()

    @override
    def update(self, value: Any) -> None:
        if value is None or self._overlay.get(self._context.active_key) is not value:  # else it was changed in place
            super().update(value)

    @override
    def value(self) -> Any:
        key = self._context.active_key
        value = self._overlay.get(key, _MISSING)
        if value is not _MISSING:
            return value
        group = self._group(key)
        stored = self._store.get(key, group)
        if stored is None:
            return None
        value = self._serializer.deserialize(stored)
        self._note(key, group)
        self._overlay[key] = value
        return value

    @override
    def load(self, key: Hashable, key_group: int) -> Any:
        stored = self._store.get(key, key_group)
        return None if stored is None else self._serializer.deserialize(stored)

    @override
    def load_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        stored: list[Any] = self._store.get_all(keys, key_groups)
        at = [place for place, data in enumerate(stored) if data is not None]
        for place, value in zip(at, self._serializer.deserialize_all([stored[place] for place in at]), strict=True):
            stored[place] = value
        return stored

    @override
    def settle(self, key: Hashable) -> None:
        value = self._overlay.get(key)
        if value is not None and self._bytes_of(key, value) == self._store.known(key, self._groups()[key]):
            self._remove(key)
        super().settle(key)

    def prepare_flush(self) -> Collection[tuple[Hashable, Any]]:
        """Return the changes of the epoch, including in-place ones."""
        if self.front is not None:
            self.front.settle()
        known, groups = self._store.known, self._groups()
        return [(key, stored) for key, stored in self._all_bytes() if stored != known(key, groups[key])]

    def _all_bytes(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Return the bytes of each value in the overlay; None for removed ones."""
        values = list(self._overlay.values())
        if all(value is not None for value in values):
            with contextlib.suppress(StateError):  # checked one by one, the error names the key
                return zip(self._overlay, self._serializer.serialize_all(values), strict=True)
        bytes_of = self._bytes_of
        return [(key, None if value is None else bytes_of(key, value)) for key, value in self._overlay.items()]


def create_value_state(name: str, context: KeyContext, serializer: TypeSerializer, store: ValueStore) -> OverlayValueState:
    """Return the value state for a serializer."""
    if not serializer.immutable:
        return MutableValueState(name, context, serializer, store)
    if serializer.integer_range is not None:
        return IntegerValueState(name, context, serializer, store)
    return ImmutableValueState(name, context, serializer, store)
