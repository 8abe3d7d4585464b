"""States based on a value state: reducing, aggregating, and value state with a default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.functions import ReduceFunction
from pystate.core.api.state import AggregatingState, ReducingState, ValueState
from pystate.core.state.values.serializers import TypeSerializer


class TakingState(Protocol):
    """A value state whose values can be removed and returned."""

    def value(self) -> Any:
        """See `ValueState`."""

    def update(self, value: Any, /) -> None:
        """See `ValueState`."""

    def clear(self) -> None:
        """See `ValueState`."""

    def checked(self, value: Any, /) -> Any:
        """Return a value in the stored form; raises StateError if it isn't of the type."""

    def take(self) -> Any:
        """Remove the current address's value and return it; None if there is none, or it has expired."""


def refuse_none(name: str) -> StateError:
    """Return the error for adding None to a state."""
    message = f"None can't be added to state {name!r}."
    return StateError(message, hint="leave such elements out, or add what stands for them")


def no_reduced_value(name: str) -> StateError:
    """Return the error for a reduce function that returns None."""
    message = f"The reduce function of state {name!r} returned None."
    return StateError(message, hint="return what takes the place of both values")


def no_accumulator(name: str, method: str) -> StateError:
    """Return the error for a method of an aggregate function that returns None."""
    message = f"The aggregate function of state {name!r} returned None from {method}()."
    return StateError(message, hint="return the accumulator, also where it is changed in place")


class ValueReducingState(ReducingState[Any]):
    """A reducing state over a value state.

    Args:
        name: The state's name.
        values: The state of the reduced values.
        checked: Returns a value in the stored form, or raises.
        function: A `ReduceFunction`, or a function of two values.
    """

    __slots__ = ("_checked", "_name", "_read", "_reduce", "_update", "_values", "take")

    def __init__(
        self,
        name: str,
        values: TakingState,
        checked: Callable[[Any], Any],
        function: ReduceFunction | Callable[..., Any],
    ) -> None:
        self._name = name
        self._values = values
        self._read = values.value
        self._update = values.update
        self._checked = checked
        self._reduce = reduce_callable(function)
        self.take = values.take

    @property
    def stored(self) -> TakingState:
        """The state of what snapshots hold of it."""
        return self._values

    def get(self) -> Any:
        """Return the reduced value; None if nothing was added."""
        return self._read()

    @override
    def add(self, value: Any) -> None:
        if value is None:
            raise refuse_none(self._name)
        value = self._checked(value)
        current = self._read()
        if current is not None:
            value = self._reduce(current, value)
            if value is None:
                raise no_reduced_value(self._name)
        self._update(value)

    def merge(self, taken: Sequence[Any]) -> None:
        """Merge taken values into the current value."""
        current = self.take()
        for value in taken:
            current = value if current is None else self._reduce(current, value)
            if current is None:
                raise no_reduced_value(self._name)
        self._update(current)

    @override
    def clear(self) -> None:
        self._values.clear()


def reduce_callable(function: ReduceFunction | Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a `ReduceFunction`, or a similar object, as a function of two values."""
    if isinstance(function, ReduceFunction) or not callable(function):
        return function.reduce
    return function


class ValueAggregatingState(AggregatingState[Any, Any]):
    """An aggregating state over a value state of accumulators.

    Args:
        name: The state's name.
        values: The state of the accumulators.
        function: An `AggregateFunction`, or an object with its methods.
    """

    __slots__ = ("_add", "_create", "_merge", "_name", "_read", "_result", "_update", "_values", "take")

    def __init__(self, name: str, values: TakingState, function: Any) -> None:
        self._name = name
        self._values = values
        self._read = values.value
        self._update = values.update
        self._create = function.create_accumulator
        self._add = function.add
        self._result = function.get_result
        self._merge: Callable[[Any, Any], Any] | None = getattr(function, "merge", None)
        self.take = values.take

    @property
    def stored(self) -> TakingState:
        """The state of what snapshots hold of it."""
        return self._values

    def get(self) -> Any:
        """Return the result; None if nothing was added."""
        accumulator = self._read()
        return None if accumulator is None else self._result(accumulator)

    @override
    def add(self, value: Any) -> None:
        if value is None:
            raise refuse_none(self._name)
        accumulator = self._read()
        accumulator = self._add(value, self._create() if accumulator is None else accumulator)
        if accumulator is None:
            raise no_accumulator(self._name, "add")
        self._update(accumulator)

    def merge(self, taken: Sequence[Any]) -> None:
        """Merge taken accumulators into the current one."""
        if self._merge is None:
            message = f"The aggregate function of state {self._name!r} has no merge()."
            raise StateError(message, hint="give it merge(acc_a, acc_b), as windows that merge need it")
        current = self.take()
        for accumulator in taken:
            current = accumulator if current is None else self._merge(current, accumulator)
            if current is None:
                raise no_accumulator(self._name, "merge")
        self._update(current)

    def clear(self) -> None:
        """Remove the current key's accumulator."""
        self._values.clear()


class DefaultValueState(ValueState[Any]):
    """A value state that returns a default if nothing is stored.

    Args:
        values: The state without a default.
        serializer: The serializer of the values, which creates the copies.
        default: The default.

    Raises:
        StateError: The default isn't of the state's type.
    """

    __slots__ = ("_check", "_default", "_read", "_values")

    def __init__(self, values: TakingState, serializer: TypeSerializer, default: Any) -> None:
        default = serializer.check(default)
        data = serializer.serialize(default)
        self._values = values
        self._check = values.checked
        self._read = values.value
        deserialize = serializer.deserialize
        self._default: Callable[[], Any] = (lambda: default) if serializer.immutable else (lambda: deserialize(data))

    @property
    def stored(self) -> TakingState:
        """The state of what snapshots hold of it."""
        return self._values

    def value(self) -> Any:
        """Return the current key's value, or a fresh copy of the default."""
        value = self._read()
        return self._default() if value is None else value

    def checked(self, value: Any) -> Any:
        """Return a value in the stored form.

        Raises:
            StateError: It isn't of the type.
        """
        return self._check(value)

    @override
    def update(self, value: Any) -> None:
        self._values.update(value)

    @override
    def clear(self) -> None:
        self._values.clear()
