"""Broadcast state: the flushed map of one subtask, the changes of the running epoch, and its read-only view.

Flushed values of an immutable type are stored as objects, others as bytes. A frozen view is the flushed dict itself: the
next flush with changes works on a shallow copy. One copy of references per checkpoint is cheap compared to the content of a
map of rules, and processing never waits for serialization.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.state import BroadcastState, map_entries
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.values.serializers import TypeSerializer

_REMOVED = object()
_ABSENT = object()


class WriteGuard(Protocol):
    """Decides whether broadcast state may be written now."""

    read_only: bool


class OperatorBroadcastState(BroadcastState[Any, Any]):
    """A map that every subtask has a copy of.

    Args:
        name: Its name, for errors.
        keys: The codec of the map keys.
        serializer: The serializer of the values.
        stored: The restored entries by internal key: None, objects of an immutable type, else bytes.
        guard: Decides whether it may be written.
    """

    __slots__ = ("_guard", "_keys", "_name", "_overlay", "_serializer", "_shared", "_shown", "_stored")

    def __init__(
        self, name: str, keys: KeyCodec, serializer: TypeSerializer, stored: dict[Hashable, Any], guard: WriteGuard
    ) -> None:
        self._name = name
        self._keys = keys
        self._serializer = serializer
        self._stored = stored
        self._guard = guard
        self._shared = False  # a frozen view has the dict
        self._overlay: dict[Hashable, Any] = {}  # what the epoch wrote or may have changed in place
        self._shown: dict[Hashable, Any] = {}  # values the epoch has only looked at

    @override
    def get(self, key: Any) -> Any:
        return self._get(self._keys.internal(key))

    @override
    def put(self, key: Any, value: Any) -> None:
        self._check_writable()
        if value is not None:
            try:
                value = self._serializer.check(value)
            except StateError as error:
                raise self._misfit(error) from None
        self._overlay[self._keys.internal(key)] = value

    @override
    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in map_entries(dict_value):
            self.put(key, value)

    @override
    def remove(self, key: Any) -> None:
        self._check_writable()
        self._overlay[self._keys.internal(key)] = _REMOVED

    def clear(self) -> None:
        """Remove all entries."""
        self._check_writable()
        self._overlay = dict.fromkeys([*self._stored, *self._overlay], _REMOVED)

    @override
    def contains(self, key: Any) -> bool:
        internal = self._keys.internal(key)
        if internal in self._overlay:
            return self._overlay[internal] is not _REMOVED
        return internal in self._stored

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the present entries."""
        external = self._keys.external
        return iter([(external(internal), self._get(internal)) for internal in self._present()])

    def keys(self) -> Iterator[Any]:
        """Iterate over the present map keys."""
        return iter([self._keys.external(internal) for internal in self._present()])

    def values(self) -> Iterator[Any]:
        """Iterate over the present values."""
        return iter([self._get(internal) for internal in self._present()])

    @override
    def is_empty(self) -> bool:
        return not self._present()

    def show(self, key: Any) -> Any:
        """Return a value that will not be modified: it isn't checked again at the end of the epoch."""
        return self._show(self._keys.internal(key))

    def shown_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the entries, with values that will not be modified."""
        external = self._keys.external
        return iter([(external(internal), self._show(internal)) for internal in self._present()])

    def flushed(self) -> dict[Any, Any]:
        """Return the entries without the changes of the epoch, as objects of their own."""
        external, values = self._keys.external, self._serializer
        return {
            external(internal): form if form is None or values.immutable else values.deserialize(form)
            for internal, form in self._stored.items()
        }

    def prepare_flush(self) -> Callable[[], None] | None:
        """Return a function that applies the epoch's changes to the flushed map; None if there are none.

        Raises:
            StateError: A value isn't of the state's type; nothing has changed then.
        """
        changes: list[tuple[Hashable, Any]] = []
        for internal, value in self._overlay.items():
            form = value if value is None or value is _REMOVED else self._form(value)
            before = self._stored.get(internal, _REMOVED)
            if form is not before and (type(form) is not bytes or form != before):
                changes.append((internal, form))
        return (lambda: self._apply(changes)) if changes else None

    def drop_epoch(self) -> None:
        """Drop the changes of the epoch, and detach the objects that user code has."""
        self._overlay = {}
        self._shown.clear()

    def freeze(self) -> tuple[int, Callable[[], Iterator[bytes | None]]]:
        """Return the number of flushed entries, and a thread-safe iteration over keys and values as bytes."""
        self._shared = True
        stored, serializer, encode = self._stored, self._serializer, self._keys.encode

        def entries() -> Iterator[bytes | None]:
            for internal, form in stored.items():
                yield encode(internal)
                yield form if form is None or not serializer.immutable else serializer.serialize(form)

        return len(stored), entries

    def _get(self, internal: Hashable) -> Any:
        """Return a value that user code may change in place from now on."""
        return self._lookup(internal, self._overlay)

    def _show(self, internal: Hashable) -> Any:
        return self._lookup(internal, self._shown)

    def _lookup(self, internal: Hashable, kept: dict[Hashable, Any]) -> Any:
        """Return a value; one deserialized from flushed bytes is put into `kept`, so that this happens once per epoch."""
        value = self._overlay.get(internal, _ABSENT)
        if value is not _ABSENT:
            return None if value is _REMOVED else value
        value = self._stored.get(internal)
        if value is None or self._serializer.immutable:
            return value
        if internal not in kept:
            kept[internal] = self._serializer.deserialize(value)
        return kept[internal]

    def _present(self) -> list[Hashable]:
        overlay = self._overlay
        if not overlay:
            return list(self._stored)
        new = [internal for internal, value in overlay.items() if value is not _REMOVED and internal not in self._stored]
        return [internal for internal in self._stored if overlay.get(internal) is not _REMOVED] + new

    def _form(self, value: Any) -> Any:
        try:
            checked = self._serializer.check(value)
            return checked if self._serializer.immutable else self._serializer.serialize(checked)
        except StateError as error:
            raise self._misfit(error) from None

    def _apply(self, changes: list[tuple[Hashable, Any]]) -> None:
        stored = self._stored
        if self._shared:
            stored = dict(stored)
            self._shared = False
        for internal, form in changes:
            if form is _REMOVED:
                stored.pop(internal, None)
            else:
                stored[internal] = form
        self._stored = stored

    def _check_writable(self) -> None:
        if self._guard.read_only:
            raise read_only_error(self._name)

    def _misfit(self, error: StateError) -> StateError:
        message = f"Broadcast state {self._name!r} can't take this value: {error.message}"
        return StateError(message, where=error.where, hint=error.hint)


def read_only_error(name: str) -> StateError:
    """Return the error for a write from the data stream."""
    message = (
        f"The broadcast state {name!r} is read-only here: only process_broadcast_element may write it. Each subtask sees "
        "other elements of the data stream, so the copies would no longer be the same."
    )
    return StateError(message, hint="write it in process_broadcast_element, or keep the value in keyed state")


class ReadOnlyBroadcastView(BroadcastState[Any, Any]):
    """Broadcast state as seen by elements of the data stream.

    It has write methods, so that a write raises a helpful error.
    """

    __slots__ = ("_name", "_state")

    def __init__(self, name: str, state: OperatorBroadcastState) -> None:
        self._name = name
        self._state = state

    @override
    def get(self, key: Any) -> Any:
        return self._state.show(key)

    @override
    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the entries."""
        return self._state.shown_items()

    @override
    def keys(self) -> Iterator[Any]:
        return self._state.keys()

    @override
    def values(self) -> Iterator[Any]:
        return (value for _, value in self._state.shown_items())

    @override
    def is_empty(self) -> bool:
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> NoReturn:
        """Raise an error: the state is read-only."""
        raise read_only_error(self._name)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> NoReturn:
        """Raise an error: the state is read-only."""
        raise read_only_error(self._name)

    def remove(self, key: Any) -> NoReturn:
        """Raise an error: the state is read-only."""
        raise read_only_error(self._name)

    def clear(self) -> NoReturn:
        """Raise an error: the state is read-only."""
        raise read_only_error(self._name)
