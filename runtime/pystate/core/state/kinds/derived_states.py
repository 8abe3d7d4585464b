"""States based on a value state: reducing, aggregating, and value state with a default."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.api.functions import ReduceFunction
from pystate.core.api.state import AggregatingState, MergingState, ReducingState, ValueState
from pystate.core.state.values.serializers import TypeSerializer


class TakingState(Protocol):
    """A value state whose values can be removed and returned."""

    def value(self) -> Any:
        """See `ValueState`."""

    def update(self, value: Any, /) -> None:
        """See `ValueState`."""

    def update_checked(self, value: Any, /) -> None:
        """Set the current address's value, which is in the stored form."""

    def clear(self) -> None:
        """See `ValueState`."""

    def checked(self, value: Any, /) -> Any:
        """Return a value in the stored form; raises StateError if it isn't of the type."""

    def take(self) -> Any:
        """Remove the current address's value and return it; None if there is none, or it has expired."""


def _none_added(name: str) -> StateError:
    message = f"None can't be added to state {name!r}."
    return StateError(message, hint="leave such elements out, or add what stands for them")


def _no_accumulator(name: str, method: str) -> StateError:
    message = f"The aggregate function of state {name!r} returned None from {method}()."
    return StateError(message, hint="return the accumulator, also where it is changed in place")


def _no_merge(name: str) -> StateError:
    message = f"The aggregate function of state {name!r} has no merge()."
    return StateError(message, hint="give it merge(acc_a, acc_b), as windows that merge need it")


class AccumulatingState(MergingState[Any, Any]):
    """A state that puts added values together, over a value state of accumulators.

    `combine`, `merged` and `result` are the rule, without an address: operators with tables of accumulators use it, too.

    Args:
        name: The state's name.
        values: The state of the accumulators.
        checked: Returns an accumulator in the stored form, or raises.
    """

    __slots__ = ("_checked", "_name", "_read", "_values", "_write", "take")

    def __init__(self, name: str, values: TakingState, checked: Callable[[Any], Any]) -> None:
        self._name = name
        self._values = values
        self._read = values.value
        self._write = values.update_checked
        self._checked = checked
        self.take = values.take

    @abstractmethod
    def combine(self, accumulator: Any, value: Any, /) -> Any:
        """Return an accumulator with a value added, in the stored form; it may be modified.

        Args:
            accumulator: As it was; None for the first value.
            value: To be added.

        Raises:
            StateError: A value isn't of the type, or is None.
        """

    @abstractmethod
    def merged(self, accumulator: Any, other: Any, /) -> Any:
        """Merge two accumulators; either may be modified.

        Raises:
            StateError: The function returns None, or has no `merge`.
        """

    @abstractmethod
    def result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""

    @property
    def stored(self) -> TakingState:
        """The state of what snapshots hold of it."""
        return self._values

    def get(self) -> Any:
        """Return the result; None if nothing was added."""
        accumulator = self._read()
        return None if accumulator is None else self.result(accumulator)

    @override
    def add(self, value: Any) -> None:
        self._write(self.combine(self._read(), value))

    def merge(self, taken: Sequence[Any]) -> None:
        """Merge taken accumulators into the current one."""
        current = self.take()
        for accumulator in taken:
            current = accumulator if current is None else self.merged(current, accumulator)
        self._write(current)

    @override
    def clear(self) -> None:
        self._values.clear()


class ValueReducingState(AccumulatingState, ReducingState[Any]):
    """A reducing state: the reduced value is its own accumulator.

    Args:
        name: The state's name.
        values: The state of the reduced values.
        checked: See `AccumulatingState`.
        function: A `ReduceFunction`, or a function of two values.
    """

    __slots__ = ("_reduce",)

    def __init__(
        self,
        name: str,
        values: TakingState,
        checked: Callable[[Any], Any],
        function: ReduceFunction | Callable[..., Any],
    ) -> None:
        super().__init__(name, values, checked)
        self._reduce = reduce_callable(function)

    @override
    def combine(self, accumulator: Any, value: Any, /) -> Any:
        if value is None:
            raise _none_added(self._name)
        value = self._checked(value)
        if accumulator is None:
            return value
        reduced = self._reduce(accumulator, value)
        if reduced is accumulator:
            return reduced
        if reduced is None:
            message = f"The reduce function of state {self._name!r} returned None."
            raise StateError(message, hint="return what takes the place of both values")
        return self._checked(reduced)

    merged = combine

    @override
    def result(self, accumulator: Any) -> Any:
        return accumulator


def reduce_callable(function: ReduceFunction | Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a `ReduceFunction`, or a similar object, as a function of two values."""
    if isinstance(function, ReduceFunction) or not callable(function):
        return function.reduce
    return function


class ValueAggregatingState(AccumulatingState, AggregatingState[Any, Any]):
    """An aggregating state.

    Args:
        name: The state's name.
        values: The state of the accumulators.
        checked: See `AccumulatingState`.
        function: An `AggregateFunction`, or an object with its methods.
    """

    __slots__ = ("_add", "_create", "_merge", "_result")

    def __init__(self, name: str, values: TakingState, checked: Callable[[Any], Any], function: Any) -> None:
        super().__init__(name, values, checked)
        self._create = function.create_accumulator
        self._add = function.add
        self._result = function.get_result
        self._merge: Callable[[Any, Any], Any] | None = getattr(function, "merge", None)

    @override
    def combine(self, accumulator: Any, value: Any, /) -> Any:
        if value is None:
            raise _none_added(self._name)
        after = self._add(value, self._create() if accumulator is None else accumulator)
        if after is None:
            raise _no_accumulator(self._name, "add")
        return after if after is accumulator else self._checked(after)

    @override
    def merged(self, accumulator: Any, other: Any, /) -> Any:
        if self._merge is None:
            raise _no_merge(self._name)
        after = self._merge(accumulator, other)
        if after is None:
            raise _no_accumulator(self._name, "merge")
        return after if after is accumulator else self._checked(after)

    @override
    def merge(self, taken: Sequence[Any]) -> None:
        if self._merge is None:  # also where one of the windows has no accumulator yet, so that it doesn't hang on the data
            raise _no_merge(self._name)
        super().merge(taken)

    @override
    def result(self, accumulator: Any) -> Any:
        return self._result(accumulator)


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
