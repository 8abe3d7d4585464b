"""Keyed state as seen by user code: state interfaces and their descriptors, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic

from pystate.common.errors import StateError
from pystate.common.text.plain_text import check_text
from pystate.common.type_info import TypeInformation
from pystate.core.api.same_function import same_function
from pystate.core.api.state_ttl import StateTtlConfig as StateTtlConfig
from pystate.core.api.type_variables import IN, OUT, K, T, V


class StateKind(str, Enum):
    """The kinds of keyed state; the values are part of the snapshot format. Timers have no descriptor."""

    VALUE = "VALUE"
    LIST = "LIST"
    MAP = "MAP"
    REDUCING = "REDUCING"
    AGGREGATING = "AGGREGATING"
    TIMER = "TIMER"


class State(ABC):
    """A keyed state: each access is scoped to the current key.

    What a state hands out or takes may be changed in place by user code. Within the running epoch such a change counts as an
    update, with or without a call of `update()`, on every backend; but what an iteration over a `MapState` hands out are
    copies. Once the epoch has ended, objects kept from it are cut off: changing them changes nothing.
    """

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove the current key's value."""


class ValueState(State, Generic[T]):
    """One value per key."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value; None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value; None removes it.

        Raises:
            StateError: The value doesn't have the state's type. Basic types are checked at once; what a list, map or row
                holds is checked when the epoch ends.
        """


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added one by one."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the current key's result; None if nothing was added (an empty list for list state)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add an element to the current key.

        Raises:
            StateError: The value is None, or doesn't have the state's type.
        """


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged, as session windows require."""

    __slots__ = ()


class ListState(MergingState[T, Iterable[T]]):
    """A list per key."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> list[T]:
        """Return the elements in the order they were added; an empty list where there is none.

        The list may be changed in place. What is added afterwards shows in it at the next `get`.
        """

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements; an empty list removes the key.

        The list itself is copied, its elements aren't.
        """

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add several elements."""

    def __iter__(self) -> Iterator[T]:
        """Iterate over the elements."""
        return iter(self.get())


class ReducingState(MergingState[T, T]):
    """One value per key: all added elements combined by a `ReduceFunction`, which must not return None."""

    __slots__ = ()


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key: all added elements aggregated by an `AggregateFunction`. An accumulator must not be None."""

    __slots__ = ()


class _ReadableMap(State, Generic[K, V]):
    """The read access of map and broadcast state, with the operators of a dict."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of a map key; None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether a map key exists."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V | None]]:
        """Iterate over the entries, in no particular order."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """Iterate over the map keys."""

    @abstractmethod
    def values(self) -> Iterator[V | None]:
        """Iterate over the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the map is empty."""

    def __getitem__(self, key: K) -> V | None:
        """Return the value of a map key; None if there is none, as PyFlink has it."""
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        """Return whether a map key exists."""
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        """Iterate over the map keys."""
        return self.keys()


class _WritableMap(_ReadableMap[K, V]):
    """The write access of map and broadcast state."""

    __slots__ = ()

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set the value of a map key; None is a value of its own, as in Flink."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V | None] | Iterable[tuple[K, V | None]]) -> None:
        """Set several entries: a dict, or pairs as PyFlink expects them (`put_all(entries.items())`)."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a map key; does nothing if it isn't there."""

    def __setitem__(self, key: K, value: V | None) -> None:
        """Set the value of a map key."""
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        """Remove a map key."""
        self.remove(key)


def map_entries(dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> Iterable[tuple[K, V]]:
    """Return the entries that `put_all` got as a dict or as pairs."""
    return dict_value.items() if isinstance(dict_value, Mapping) else dict_value


class MapState(_WritableMap[K, V]):
    """A map per key. Entries are read and written one by one, so on RocksDB a map may be larger than memory.

    Iteration shows the map as it was when the iteration began, whatever the function writes meanwhile. A mutable value that
    `get` handed out counts as updated when it is changed in place; iteration hands out copies, which must be `put` back. An
    iteration ends with its epoch: going on with it later is an error.
    """

    __slots__ = ()


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """Broadcast state as seen by elements of the data stream. Its values must not be modified in place."""

    __slots__ = ()


class BroadcastState(ReadOnlyBroadcastState[K, V], _WritableMap[K, V]):
    """A map that is the same in every subtask, provided all process broadcast elements in the same way."""

    __slots__ = ()


class StateDescriptor(ABC):
    """Declares a state: its name, unique within the operator, and its type.

    Args:
        name: A non-empty string; it identifies the state in snapshots.
        type_info: The type of the values. None means untyped: values are kept as what they are, as far as msgpack with our
            extensions says it exactly (None, bool, int, float, str, bytes, list, dict, tuple, Row, date, time, datetime,
            Decimal).

    Attributes:
        kind: The kind of the declared state.
        getter: The method of `KeyedStateStore` that returns it.
    """

    kind: ClassVar[StateKind]
    getter: ClassVar[str]

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not isinstance(name, str) or not name:
            message = f"The name of a state must be a non-empty string, not {name!r}."
            raise StateError(message)
        check_text(name, "the name of a state", StateError)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            message = f"The type of state {name!r} must be a TypeInformation, not {type_info!r}."
            raise StateError(message, hint="use the factory, for example Types.LONG()")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_state_name: str | None = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """How long values live; None for ever."""
        return self._ttl_config

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire; must be called before the state is created. For keyed state only.

        Each value has a time to live of its own, as has each element of a list and each entry of a map. A default value is
        then ignored.

        Raises:
            StateError: This is no `StateTtlConfig`.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            message = f"The time to live of state {self.name!r} must be a StateTtlConfig, not {ttl_config!r}."
            raise StateError(message, hint="write StateTtlConfig.new_builder(Time.hours(1)).build()")
        self._ttl_config = ttl_config if ttl_config.is_enabled() else None

    def set_queryable(self, queryable_state_name: str) -> None:
        """Make the keyed state queryable from outside while the job runs; must be called before the state is created.

        It takes effect with `queryable-state.enable = true`. See `docs/queryable-state.md`.

        Args:
            queryable_state_name: The name for clients, unique in the job.

        Raises:
            StateError: The name isn't valid, or the state has another one.
        """
        if not isinstance(queryable_state_name, str) or not queryable_state_name:
            message = f"The queryable name of state {self.name!r} must be a non-empty string, not {queryable_state_name!r}."
            raise StateError(message)
        check_text(queryable_state_name, "the queryable name of a state", StateError)
        if self._queryable_state_name not in (None, queryable_state_name):
            message = f"State {self.name!r} is queryable as {self._queryable_state_name!r} already."
            raise StateError(message, hint="call set_queryable once")
        self._queryable_state_name = queryable_state_name

    @property
    def queryable_state_name(self) -> str | None:
        """The name by which the state is read from outside; None if it isn't."""
        return self._queryable_state_name

    def is_queryable(self) -> bool:
        """Return whether the state can be read from outside."""
        return self._queryable_state_name is not None

    def get_queryable_state_name(self) -> str | None:
        """Return the name by which the state is read from outside; None if it isn't."""
        return self._queryable_state_name

    def __eq__(self, other: object) -> bool:
        """Compare by kind, name, types, time to live, and what else makes a difference to the state."""
        if not isinstance(other, StateDescriptor):
            return NotImplemented
        return self.name == other.name and self.difference(other) is None and self._declares_same(other) is True

    def difference(self, other: StateDescriptor) -> str | None:
        """Return how another declaration of the state differs; None if no difference is known."""
        if self.kind is not other.kind:
            return "kind"
        if self.type_info != other.type_info:
            return "type"
        if self._ttl_config != other._ttl_config:
            return "time to live"
        return self._OWN if self._declares_same(other) is False else None

    _OWN = ""
    """The attribute that only this kind of descriptor has, for errors."""

    @abstractmethod
    def _declares_same(self, other: Any) -> bool | None:
        """Compare the attributes of this kind of descriptor with another of the kind; None if unknown."""

    def __hash__(self) -> int:
        """Hash kind, name and type."""
        return hash((self.kind, self.name, self.type_info))

    def __repr__(self) -> str:
        """Return the call that makes the descriptor."""
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Declares a `ValueState`.

    Args:
        name: See `StateDescriptor`.
        value_type_info: The type of the value; None for untyped.
        default_value: What `value()` returns where nothing is stored, a fresh copy each time; it is stored only by
            `update()`. Flink has it for old jobs; new ones had better look for None.
    """

    kind = StateKind.VALUE
    getter = "get_state"
    _OWN = "default value"

    def __init__(
        self, name: str, value_type_info: TypeInformation[T] | None = None, *, default_value: T | None = None
    ) -> None:
        super().__init__(name, value_type_info)
        self.default_value = default_value

    def _declares_same(self, other: ValueStateDescriptor) -> bool:
        mine, others = self.default_value, other.default_value
        return mine is others or (type(mine) is type(others) and bool(mine == others))


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Declares a `ListState`.

    Args:
        name: See `StateDescriptor`.
        elem_type_info: The type of the elements; None for untyped.
    """

    kind = StateKind.LIST
    getter = "get_list_state"

    def __init__(self, name: str, elem_type_info: TypeInformation[T] | None = None) -> None:
        super().__init__(name, elem_type_info)

    def _declares_same(self, other: ListStateDescriptor) -> bool:  # noqa: ARG002 - it declares no more than all do
        return True


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Declares a `MapState`, or a broadcast state.

    Args:
        name: See `StateDescriptor`.
        key_type_info: The type of the map keys; None for untyped. The rules of `key_by` keys hold for them: 1, 1.0 and True
            are three keys.
        value_type_info: The type of the values; None for untyped.
    """

    kind = StateKind.MAP
    getter = "get_map_state"
    _OWN = "type of the map keys"

    def __init__(
        self, name: str, key_type_info: TypeInformation[K] | None = None, value_type_info: TypeInformation[V] | None = None
    ) -> None:
        super().__init__(name, value_type_info)
        if key_type_info is not None and not isinstance(key_type_info, TypeInformation):
            message = f"The type of the map keys of state {name!r} must be a TypeInformation, not {key_type_info!r}."
            raise StateError(message, hint="use the factory, for example Types.STRING()")
        self.key_type_info = key_type_info

    def _declares_same(self, other: MapStateDescriptor) -> bool:
        return self.key_type_info == other.key_type_info

    def __repr__(self) -> str:
        """Return the call that makes the descriptor."""
        return f"{type(self).__name__}({self.name!r}, {self.key_type_info!r}, {self.type_info!r})"


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Declares a `ReducingState`.

    Args:
        name: See `StateDescriptor`.
        reduce_function: A `ReduceFunction`, or a function of two values.
        type_info: The type of the values; None for untyped.
    """

    kind = StateKind.REDUCING
    getter = "get_reducing_state"
    _OWN = "function"

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation[T] | None = None) -> None:
        super().__init__(name, type_info)
        if not callable(getattr(reduce_function, "reduce", reduce_function)):
            message = f"The reduce function of state {name!r} must be a ReduceFunction, not {reduce_function!r}."
            raise StateError(message, hint="give an object with reduce(a, b), or a function of two values")
        self.reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return the function."""
        return self.reduce_function

    def _declares_same(self, other: ReducingStateDescriptor) -> bool | None:
        return same_function(self.reduce_function, other.reduce_function)


class AggregatingStateDescriptor(StateDescriptor, Generic[IN, OUT]):
    """Declares an `AggregatingState`.

    Args:
        name: See `StateDescriptor`.
        agg_function: An `AggregateFunction`.
        state_type_info: The type of the accumulators; None for untyped.
    """

    kind = StateKind.AGGREGATING
    getter = "get_aggregating_state"
    _OWN = "function"

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, state_type_info)
        if not all(callable(getattr(agg_function, method, None)) for method in _AGGREGATE_METHODS):
            message = f"The aggregate function of state {name!r} must be an AggregateFunction, not {agg_function!r}."
            raise StateError(message, hint=f"give an object with {', '.join(_AGGREGATE_METHODS)}")
        self.agg_function = agg_function

    def get_agg_function(self) -> Any:
        """Return the function."""
        return self.agg_function

    def _declares_same(self, other: AggregatingStateDescriptor) -> bool | None:
        return same_function(self.agg_function, other.agg_function)


_GETTERS: dict[type, str] = {
    ValueState: "get_state",
    ListState: "get_list_state",
    MapState: "get_map_state",
    ReducingState: "get_reducing_state",
    AggregatingState: "get_aggregating_state",
    BroadcastState: "get_broadcast_state",
}


def explain_missing_method(error: AttributeError) -> None:
    """Make the error about a missing method say which kind of state has it.

    Done when the error is there: a state with `__getattr__` makes each access half as slow again, as Python then looks
    attributes up the long way.
    """
    if isinstance(error.obj, State) and error.name is not None:
        error.args = (_without(type(error.obj), error.name),)


def _without(kind: type, name: str) -> str:
    """Return the message for a method that a state doesn't have."""
    own = next((one for one in kind.__mro__ if one in _GETTERS or one is ReadOnlyBroadcastState), kind)
    message = f"{own.__name__} has no {name!r}"
    others = [other for other in _GETTERS if hasattr(other, name) and other is not own]
    if name.startswith("_") or not others:
        return message
    return f"{message}; {' and '.join(f'{one.__name__} ({_GETTERS[one]})' for one in others)} have"


_AGGREGATE_METHODS = ("create_accumulator", "add", "get_result")
