"""The running epoch of one state: the common base of all kinds of state.

Reads and writes of an epoch are objects in an overlay over a store of flushed values. A backend's flush first collects the
changes of all overlays, which may fail without side effects, and then writes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable
from contextlib import closing
from itertools import chain
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.core.state.formats.field_checks import tuple_check
from pystate.core.state.keys.key_context import NO_KEY, KeyContext
from pystate.core.state.values.serializers import TypeSerializer


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()
"""Stands where nothing is, for states in which None is a value."""


class KeyStore(Protocol):
    """The interface of all stores of flushed values.

    Attributes:
        stores_objects: Whether values of an immutable type are stored as objects; otherwise they are stored as bytes, like
            those of mutable types.
    """

    stores_objects: bool

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (key, key group) of everything stored at the first step; valid until the epoch ends."""

    def forget(self, key: Hashable, /) -> None:
        """Drop what was kept of a key only for the running epoch."""

    def kept_bytes(self) -> int:
        """Return the approximate memory kept only for the running epoch."""

    def end_epoch(self) -> None:
        """Drop what was kept only for the running epoch."""


class EpochOverlay(ABC):
    """The changes of the running epoch to one state of any kind."""

    __slots__ = ()

    @abstractmethod
    def prepare_flush(self) -> Any:
        """Return all changes of the epoch, in the form of the store.

        Raises:
            StateError: A value isn't of the type.
        """

    @abstractmethod
    def apply_flush(self, changes: Any) -> None:
        """Write prepared changes to the store. The epoch continues until `drop_epoch`."""

    @abstractmethod
    def drop_epoch(self) -> None:
        """Drop the running epoch."""

    @abstractmethod
    def held_bytes(self) -> int:
        """Return the approximate memory of the running epoch."""


class OverlayState(EpochOverlay):
    """The running epoch of one state that has values.

    Keys are addresses here, see `addresses`.

    Args:
        name: The state's name.
        context: The context of the current address.
        serializer: The serializer of the values, elements or map values.
        store: The flushed values.
    """

    __slots__ = ("_context", "_checked", "_name", "_owned_groups", "_serializer", "_store")

    def __init__(self, name: str, context: KeyContext, serializer: TypeSerializer, store: KeyStore) -> None:
        self._name = name
        self._context = context
        self._serializer = serializer
        self._store: Any = store
        self._owned_groups = frozenset(range(context.key_group_range.start, context.key_group_range.end + 1))
        self._checked = value_check(name, serializer)

    def _group(self, key: Hashable) -> int:
        group = self._context.active_key_group
        if key is NO_KEY:
            raise self._context.no_key_error()
        if group not in self._owned_groups:
            raise self._foreign_group(group)
        return group

    def _foreign_group(self, group: int) -> StateError:
        message = f"Key group {group} isn't one of this subtask's, {self._context.key_group_range}."
        return StateError(message, where=f"state {self._name!r}")

    @abstractmethod
    def touched_keys(self) -> list[tuple[Hashable, int]]:
        """Return (key, key group) of all keys in the overlay."""

    @abstractmethod
    def holds(self, key: Hashable) -> bool:
        """Return whether a key is in the overlay."""

    @abstractmethod
    def settle(self, key: Hashable) -> None:
        """Drop a key that the epoch has only read. Objects that user code has of it are detached, as at the end of an epoch.

        Raises:
            StateError: The value isn't of the type.
        """

    @abstractmethod
    def has_value(self) -> bool:
        """Return whether the current key has a value."""

    def all_keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate once over (key, key group) of all keys that may have a value. Must be closed before the epoch ends.

        Concurrent changes of the epoch are neither visible nor harmful, and it may be moved to disk meanwhile. The keys of
        the overlay at the beginning are held in memory.
        """
        touched = self.touched_keys()
        seen = {key for key, _ in touched}
        with closing(self._store.keys()) as stored:
            first = next(stored, None)  # the stored rows as of now, whatever is moved there meanwhile
            yield from touched
            for key, group in chain(() if first is None else (first,), stored):
                if key not in seen:
                    yield key, group

    def _unkeepable(self, key: Hashable, error: StateError, part: str = "") -> StateError:
        shown = self._context.shown(key)
        message = f"The value of state {self._name!r} for {shown}{part} can't be kept: {error.message}"
        return StateError(message, hint=error.hint)


def value_check(name: str, serializer: TypeSerializer) -> Callable[[Any], Any]:
    """Return a quick `serializer.check` whose errors name the state."""
    check = serializer.check

    def checked(value: Any) -> Any:
        try:
            return check(value)
        except StateError as error:
            message = f"State {name!r} can't take this value: {error.message}"
            raise StateError(message, hint=error.hint) from None

    if serializer.integer_range is not None:
        low, high = serializer.integer_range
        return lambda value: value if type(value) is int and low <= value <= high else checked(value)
    if serializer.exact_type is not None:
        exact = serializer.exact_type
        return lambda value: value if type(value) is exact else checked(value)
    if serializer.field_rights is not None:
        return tuple_check(serializer.field_rights, checked)
    return checked


class EpochBuffer(ABC):
    """An operator's buffer above a state and its timers, with its own data structures.

    It has a part of the running epoch, and of previous ones within the backend's `kept_bytes`. If most additions of an epoch
    are removed before its end, or soon after, overlays and stores are a detour. The buffer follows the epochs of its state:
    the overlay of that state reports how they end.
    """

    @abstractmethod
    def settle(self, *, whole: bool = False) -> None:
        """Pass the changes of the running epoch that aren't kept to the overlays, which are flushed next.

        Called for each overlay, so more than once.

        Args:
            whole: Nothing is to be kept, since the running epoch is moved to disk; nor is anything from before it.
        """

    @abstractmethod
    def commit(self) -> None:
        """Commit the running epoch."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the uncommitted part of the running epoch."""

    @abstractmethod
    def write_back(self) -> None:
        """Write what is kept of finished epochs to the stores, possibly during an epoch.

        A backend calls it before any access to its stores, and before the running epoch is moved to disk.
        """

    @abstractmethod
    def held_bytes(self) -> int:
        """Return the approximate memory of the running epoch."""
