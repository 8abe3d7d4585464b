"""Operator list state: the flushed elements, and the changes of the running epoch.

Flushed elements of an immutable type are stored as objects, others as bytes, so that neither the rollback base nor a frozen
view shares an object with user code. The list of flushed elements only grows at its end; an epoch with other changes
replaces it by a new list. So a frozen view is that list and its length, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.state import ListState
from pystate.core.state.values.serializers import TypeSerializer


class OperatorListState(ListState[Any]):
    """A list of one subtask.

    Args:
        name: Its name, for errors.
        serializer: The serializer of the elements.
        stored: The restored elements: objects of an immutable type, else bytes.
    """

    __slots__ = ("_added", "_live", "_name", "_serializer", "_stored")

    def __init__(self, name: str, serializer: TypeSerializer, stored: list[Any]) -> None:
        self._name = name
        self._serializer = serializer
        self._stored = stored
        self._added: list[Any] = []  # after the stored elements, as long as user code hasn't read those in this epoch
        self._live: list[Any] | None = None  # all elements, once user code has them

    def get(self) -> list[Any]:
        """Return the elements; the list may be changed in place."""
        if self._live is None:
            self._live = [*self._loaded(), *self._added]
            self._added = []
        return self._live

    def add(self, value: Any) -> None:
        """Add an element."""
        checked = self._check(value)
        (self._added if self._live is None else self._live).append(checked)

    @override
    def add_all(self, values: list[Any]) -> None:
        checked = [self._check(value) for value in values]
        (self._added if self._live is None else self._live).extend(checked)

    @override
    def update(self, values: list[Any]) -> None:
        self._live = [self._check(value) for value in values]
        self._added = []

    def clear(self) -> None:
        """Remove all elements."""
        self._live, self._added = [], []

    def prepare_flush(self) -> Callable[[], None] | None:
        """Return a function that applies the epoch's changes to the flushed elements; None if there are none.

        Raises:
            StateError: An element isn't of the state's type; nothing has changed then.
        """
        if self._live is not None:
            forms = self._forms(self._live)
            return lambda: self._replace(forms)
        if self._added:
            forms = self._forms(self._added)
            return lambda: self._stored.extend(forms)
        return None

    def drop_epoch(self) -> None:
        """Drop the changes of the epoch, and detach the objects that user code has."""
        self._live, self._added = None, []

    def freeze(self) -> tuple[int, Callable[[], Iterator[bytes]]]:
        """Return the number of flushed elements, and a thread-safe iteration over their bytes."""
        stored, count, serializer = self._stored, len(self._stored), self._serializer

        def entries() -> Iterator[bytes]:
            for index in range(count):
                yield serializer.serialize(stored[index]) if serializer.immutable else stored[index]

        return count, entries

    def _loaded(self) -> list[Any]:
        if self._serializer.immutable:
            return self._stored
        deserialize = self._serializer.deserialize
        return [deserialize(data) for data in self._stored]

    def _forms(self, values: list[Any]) -> list[Any]:
        if self._serializer.immutable:
            return [self._check(value) for value in values]
        serialize = self._serializer.serialize
        try:
            return [serialize(self._check(value)) for value in values]
        except StateError as error:
            raise _misfit(self._name, error) from None

    def _check(self, value: Any) -> Any:
        if value is None:
            message = f"State {self._name!r} can't take None as an element."
            raise StateError(message)
        try:
            return self._serializer.check(value)
        except StateError as error:
            raise _misfit(self._name, error) from None

    def _replace(self, forms: list[Any]) -> None:
        self._stored = forms


def _misfit(name: str, error: StateError) -> StateError:
    if f"State {name!r}" in error.message:
        return error
    message = f"State {name!r} can't take this element: {error.message}"
    return StateError(message, where=error.where, hint=error.hint)
