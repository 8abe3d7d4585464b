"""The states returned by queries: of one key and one version, read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pystate.common.errors import StateError
from pystate.core.api.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


@dataclass(frozen=True)
class ReadVersion:
    """The version of a state that was read.

    Attributes:
        epoch: The last epoch in it; -1 if none has ended yet.
        checkpoint_id: The checkpoint; None for live state, and if there is none yet.
        timestamp: When that epoch ended, or the checkpoint was triggered; ms since 1970.
        age_ms: How old it was when it was read.
    """

    epoch: int
    checkpoint_id: int | None
    timestamp: int
    age_ms: int

    def __str__(self) -> str:
        """Return a readable form."""
        name = f"epoch {self.epoch}" if self.checkpoint_id is None else f"checkpoint {self.checkpoint_id}"
        return f"{name}, {self.age_ms / 1000:.1f} s ago"


class ImmutableState(State):
    """The base of all states returned by queries.

    Attributes:
        version: The version that was read.
        cursor: The cursor of the next page of a map or list; None at the end.
    """

    __slots__ = ("cursor", "version")

    def __init__(self, version: ReadVersion, cursor: bytes | None = None) -> None:
        self.version = version
        self.cursor = cursor

    def clear(self) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return value and version."""
        return f"{type(self).__name__}({self._shown()!r}, {self.version})"


def _refuse() -> NoReturn:
    message = "A state that a query has found can't be changed."
    raise StateError(message, hint="only the job's own functions change its state")


class ImmutableValueState(ImmutableState, ValueState[T]):
    """A value state (Flink's ImmutableValueState)."""

    __slots__ = ("_value",)

    def __init__(self, value: T, version: ReadVersion) -> None:
        super().__init__(version)
        self._value = value

    def value(self) -> T | None:
        """Return the value."""
        return self._value

    def update(self, value: T | None) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        return self._value


class ImmutableListState(ImmutableState, ListState[T]):
    """A list state, or a page of one (Flink's ImmutableListState)."""

    __slots__ = ("_elements",)

    def __init__(self, elements: list[T], version: ReadVersion, cursor: bytes | None = None) -> None:
        super().__init__(version, cursor)
        self._elements = elements

    def get(self) -> list[T]:
        """Return the elements."""
        return list(self._elements)

    def add(self, value: T) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def update(self, values: list[T]) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def add_all(self, values: list[T]) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        return self._elements


class ImmutableMapState(ImmutableState, MapState[K, V]):
    """A map state, or a page of one (Flink's ImmutableMapState).

    Args:
        entries: Map keys and values, in the order of the state.
        internal: Converts a map key to its hashable internal form, in which 1, 1.0 and True differ.
        version: See `ImmutableState`.
        cursor: See `ImmutableState`.
    """

    __slots__ = ("_by_key", "_entries", "_internal")

    def __init__(
        self, entries: list[tuple[K, V | None]], internal: Any, version: ReadVersion, cursor: bytes | None = None
    ) -> None:
        super().__init__(version, cursor)
        self._entries = entries
        self._internal = internal
        self._by_key = {internal(key): value for key, value in entries}

    def get(self, key: K) -> V | None:
        """Return the value of a map key; None if there is none."""
        return self._by_key.get(self._internal(key))

    def contains(self, key: K) -> bool:
        """Return whether a map key is there."""
        return self._internal(key) in self._by_key

    def items(self) -> Iterator[tuple[K, V | None]]:
        """Iterate over the entries."""
        return iter(self._entries)

    def keys(self) -> Iterator[K]:
        """Iterate over the map keys."""
        return (key for key, _ in self._entries)

    def values(self) -> Iterator[V | None]:
        """Iterate over the values."""
        return (value for _, value in self._entries)

    def is_empty(self) -> bool:
        """Return whether the map is empty."""
        return not self._entries

    def put(self, key: K, value: V | None) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def put_all(self, dict_value: Mapping[K, V | None] | Iterable[tuple[K, V | None]]) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def remove(self, key: K) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        return self._entries


class ImmutableReducingState(ImmutableState, ReducingState[T]):
    """A reducing state (Flink's ImmutableReducingState)."""

    __slots__ = ("_value",)

    def __init__(self, value: T, version: ReadVersion) -> None:
        super().__init__(version)
        self._value = value

    def get(self) -> T | None:
        """Return the reduced value."""
        return self._value

    def add(self, value: T) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        return self._value


class ImmutableAggregatingState(ImmutableState, AggregatingState[IN, OUT]):
    """An aggregating state (Flink's ImmutableAggregatingState).

    Args:
        result: The result of the descriptor's function; without a descriptor, the accumulator.
        version: See `ImmutableState`.
    """

    __slots__ = ("_result",)

    def __init__(self, result: OUT, version: ReadVersion) -> None:
        super().__init__(version)
        self._result = result

    def get(self) -> OUT | None:
        """Return the result; the accumulator if the query had no descriptor."""
        return self._result

    def add(self, value: IN) -> None:
        """Raise an error: the state is read-only.

        Raises:
            StateError: Always.
        """
        _refuse()

    def _shown(self) -> Any:
        return self._result
