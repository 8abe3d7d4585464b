"""Access to the accumulators of a reducing or aggregating state by address, for bulk operations.

A batch of elements, or the timers of one time, have many keys and few namespaces. Setting the current key and namespace for
each, and reading the state repeatedly, would take longer than the work itself: so addresses are passed explicitly. Reads and
writes are equivalent to the state's `get`, `add` and `clear`, including their checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from pystate.common.overrides import override
from pystate.core.api.state import AggregatingStateDescriptor, ReducingStateDescriptor
from pystate.core.state.kinds.derived_states import no_accumulator, no_reduced_value, reduce_callable, refuse_none
from pystate.core.state.kinds.internal_state import InternalKvState
from pystate.core.state.kinds.overlay import EpochBuffer
from pystate.core.state.kinds.value_states import ImmutableValueState, OverlayValueState


class Accumulators(ABC):
    """The accumulators of one state.

    Args:
        name: The state's name.
        values: The state that holds them.

    """

    __slots__ = ("_checked", "_held", "_load", "_name", "_values")

    def __init__(self, name: str, values: OverlayValueState) -> None:
        self._name = name
        self._values = values
        self._load = values.load
        self._checked = values.checked
        self._held: dict[Hashable, Any] = values.overlay  # one dict for good; None if one was removed

    @staticmethod
    def of(handle: InternalKvState) -> Accumulators | None:
        """Return the accumulators of a state; None if it has none, or if they expire."""
        descriptor, values = handle.descriptor, handle.overlay
        if not isinstance(values, OverlayValueState):
            return None
        if isinstance(descriptor, ReducingStateDescriptor):
            return _Reduced(descriptor.name, values, descriptor.reduce_function)
        if isinstance(descriptor, AggregatingStateDescriptor):
            return _Aggregated(descriptor.name, values, descriptor.agg_function)
        return None

    @abstractmethod
    def combine(self, accumulator: Any, value: Any) -> Any:
        """Return an accumulator with a value added.

        Args:
            accumulator: As it was; None for the first value.
            value: To be added.

        Raises:
            StateError: A value isn't of the type, or is None.
        """

    @abstractmethod
    def result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""

    @abstractmethod
    def merge(self, accumulator: Any, other: Any) -> Any:
        """Merge two accumulators; either may be modified.

        Raises:
            StateError: The function returns None, or has no `merge`.
        """

    def stand_behind(self, front: EpochBuffer) -> None:
        """Register an operator's buffer for accumulators of the running epoch in front of the state."""
        self._values.front = front

    def hold_all(self, addresses: Sequence[Hashable], key_groups: Sequence[int], accumulators: Iterable[Any]) -> None:
        """Set the accumulators of some addresses, as returned by `combine`."""
        self._values.hold_all(addresses, key_groups, accumulators)

    @property
    def immutable(self) -> bool:
        """Whether accumulators are immutable."""
        return isinstance(self._values, ImmutableValueState)

    def store_all(self, addresses: Sequence[Hashable], key_groups: Sequence[int], accumulators: Iterable[Any]) -> None:
        """Store the accumulators of some addresses as of finished epochs."""
        self._values.store_all(addresses, key_groups, accumulators)

    def read(self, address: Hashable, key_group: int) -> Any:
        """Return the accumulator of an address; None if there is none."""
        accumulator = self._held.get(address)
        if accumulator is None and address not in self._held:
            return self._load(address, key_group)
        return accumulator

    def checked(self, accumulator: Any) -> Any:
        """Return an accumulator in the stored form.

        Raises:
            StateError: It isn't of the type.
        """
        return self._checked(accumulator)

    def remove(self, address: Hashable, key_group: int) -> None:
        """Remove the accumulator of an address."""
        self._values.hold(address, key_group, None)

    def remove_new(self, address: Hashable) -> None:
        """Remove the accumulator of an address that isn't in any finished epoch."""
        self._values.let_go(address)


class _Reduced(Accumulators):
    """The accumulators of a `ReduceFunction`."""

    __slots__ = ("_reduce",)

    def __init__(self, name: str, values: OverlayValueState, function: Any) -> None:
        super().__init__(name, values)
        self._reduce = reduce_callable(function)

    @override
    def combine(self, accumulator: Any, value: Any) -> Any:
        if value is None:
            raise refuse_none(self._name)
        value = self._checked(value)
        return value if accumulator is None else self.merge(accumulator, value)

    @override
    def result(self, accumulator: Any) -> Any:
        return accumulator

    @override
    def merge(self, accumulator: Any, other: Any) -> Any:
        reduced = self._reduce(accumulator, other)
        if reduced is accumulator:
            return reduced
        if reduced is None:
            raise no_reduced_value(self._name)
        return self._checked(reduced)


class _Aggregated(Accumulators):
    """The accumulators of an `AggregateFunction`."""

    __slots__ = ("_add", "_create", "_merge", "_result")

    def __init__(self, name: str, values: OverlayValueState, function: Any) -> None:
        super().__init__(name, values)
        self._create = function.create_accumulator
        self._add = function.add
        self._merge = getattr(function, "merge", None)
        self._result = function.get_result

    @override
    def combine(self, accumulator: Any, value: Any) -> Any:
        if value is None:
            raise refuse_none(self._name)
        after = self._add(value, self._create() if accumulator is None else accumulator)
        if after is None:
            raise no_accumulator(self._name, "add")
        return after if after is accumulator else self._checked(after)

    @override
    def result(self, accumulator: Any) -> Any:
        return self._result(accumulator)

    @override
    def merge(self, accumulator: Any, other: Any) -> Any:
        merged = None if self._merge is None else self._merge(accumulator, other)
        if merged is None:
            raise no_accumulator(self._name, "merge")
        return merged if merged is accumulator else self._checked(merged)
