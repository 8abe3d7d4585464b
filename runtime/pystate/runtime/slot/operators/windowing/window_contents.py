"""The contents of windows, and the input of their function."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from pystate.core.api.window.evictors import Evictor, TimestampedValue
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MIN_TIMESTAMP
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS
from pystate.core.state.kinds.derived_states import reduce_callable
from pystate.core.state.kinds.internal_state import InternalMergingState
from pystate.runtime.slot.operators.windowing.window_state_stores import WindowStates


class WindowContents(ABC):
    """The window contents of one operator, scoped to a key and a window.

    Args:
        states: The window states.
        descriptor: The descriptor of the contents state.

    Attributes:
        handle: The contents state.
    """

    def __init__(self, states: WindowStates, descriptor: StateDescriptor) -> None:
        handle = states.handle(descriptor)
        assert isinstance(handle, InternalMergingState)  # noqa: S101 - list, reducing or aggregating state
        self.handle = handle
        self._state: Any = handle.state
        self._of = states.namespaces.of

    def select(self, window: Any) -> None:
        """Set the current window."""
        self.handle.set_current_namespace(self._of(window))

    def merge(self, target: Any, sources: list[Any]) -> None:
        """Move the contents of some windows to another."""
        self.handle.merge_namespaces(self._of(target), map(self._of, sources))

    def clear(self) -> None:
        """Clear the contents."""
        self._state.clear()

    @abstractmethod
    def add(self, value: Any, timestamp: int) -> None:
        """Add an element; its timestamp is `MIN_TIMESTAMP` if it has none."""

    @abstractmethod
    def fire(self, window: Any) -> list[Any] | None:
        """Return the input of the window's function; None if the window has no contents."""

    def fired(self, window: Any) -> None:  # noqa: B027 - most have nothing to do
        """Run after the window's function."""


class AccumulatedContents(WindowContents):
    """One accumulator per window."""

    def add(self, value: Any, timestamp: int) -> None:
        """Add the element to the accumulator."""
        self._state.add(value)

    def fire(self, window: Any) -> list[Any] | None:
        """Return the result as the only input."""
        result = self._state.get()
        return None if result is None else [result]


class ListedContents(WindowContents):
    """All elements of a window."""

    def add(self, value: Any, timestamp: int) -> None:
        """Add the element."""
        self._state.add(value)

    def fire(self, window: Any) -> list[Any] | None:
        """Return the elements."""
        return list(self._state.get()) or None


class EvictedContents(WindowContents):
    """All elements of a window with their timestamps, for an evictor.

    Args:
        states: The window states.
        descriptor: The descriptor of the contents state.
        operation: The window operation.
        context: The evictor's context.
    """

    def __init__(
        self,
        states: WindowStates,
        descriptor: StateDescriptor,
        operation: WindowOperation,
        context: Evictor.EvictorContext,
    ) -> None:
        super().__init__(states, descriptor)
        assert operation.evictor is not None  # noqa: S101 - that is what it is for
        self._evictor = operation.evictor
        self._operation = operation
        self._context = context
        self._elements: list[TimestampedValue] = []

    def add(self, value: Any, timestamp: int) -> None:
        """Add the element with its timestamp."""
        self._state.add((value, timestamp))

    def fire(self, window: Any) -> list[Any] | None:
        """Evict elements, and return the remaining ones or their reduced value."""
        kept = self._state.get()
        if not kept:
            return None
        elements = [TimestampedValue(value, None if time == MIN_TIMESTAMP else time) for value, time in kept]
        self._elements = elements
        self._evictor.evict_before(elements, len(elements), window, self._context)
        values = [element.value for element in elements]
        operation = self._operation
        if operation.reduce_function is not None:
            return [functools.reduce(reduce_callable(operation.reduce_function), values)] if values else []
        if operation.aggregate_function is not None:
            aggregate = operation.aggregate_function
            accumulator = aggregate.create_accumulator()
            for value in values:
                accumulator = aggregate.add(value, accumulator)
            return [aggregate.get_result(accumulator)]
        return values

    def fired(self, window: Any) -> None:  # noqa: B027 - most have nothing to do
        """Evict again, and store the remaining elements."""
        elements, self._elements = self._elements, []
        self._evictor.evict_after(elements, len(elements), window, self._context)
        kept = [(one.value, MIN_TIMESTAMP if one.timestamp is None else one.timestamp) for one in elements]
        self._state.update(kept)


def contents_descriptor(
    operation: WindowOperation, input_type: TypeInformation | None, name: str = WINDOW_CONTENTS
) -> StateDescriptor:
    """Return the descriptor, under a name, of the contents of a step's windows."""
    if operation.evictor is not None:
        return ListStateDescriptor(name, Types.TUPLE([input_type or Types.PICKLED_BYTE_ARRAY(), Types.LONG()]))
    if operation.reduce_function is not None:
        return ReducingStateDescriptor(name, operation.reduce_function, input_type)
    if operation.aggregate_function is not None:
        return AggregatingStateDescriptor(name, operation.aggregate_function, operation.accumulator_type)
    return ListStateDescriptor(name, input_type)


def window_contents(
    operation: WindowOperation,
    input_type: TypeInformation | None,
    states: WindowStates,
    context: Evictor.EvictorContext,
    name: str = WINDOW_CONTENTS,
) -> WindowContents:
    """Return the contents of a step's windows.

    Args:
        operation: The window operation.
        input_type: The type of the elements; None for untyped.
        states: The window states.
        context: The evictor's context.
        name: The name of the state.
    """
    descriptor = contents_descriptor(operation, input_type, name)
    if operation.evictor is not None:
        return EvictedContents(states, descriptor, operation, context)
    return (
        ListedContents(states, descriptor)
        if isinstance(descriptor, ListStateDescriptor)
        else AccumulatedContents(states, descriptor)
    )
