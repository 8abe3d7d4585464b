"""A keyed stream kept as queryable state: Flink's `KeyedStream.asQueryableState`, which PyFlink doesn't have."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import KeyedProcessFunction, RuntimeContext, SinkFunction
from pystate.core.api.state import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.api.transformations import Transformation
from pystate.datastream.step_settings import StepSettings

QueryableDescriptor = ValueStateDescriptor | ReducingStateDescriptor


class QueryableStateStream(StepSettings):
    """The result of `as_queryable_state`; uid and parallelism of its step can be set.

    Args:
        step: The step that keeps the elements.
        descriptor: The descriptor of the state.
        key_type: The type of the keys; None for untyped ones.
    """

    def __init__(self, step: Transformation, descriptor: QueryableDescriptor, key_type: TypeInformation | None) -> None:
        super().__init__(step)
        self._descriptor = descriptor
        self._key_type = key_type

    def get_queryable_state_name(self) -> str:
        """Return the name for clients."""
        return str(self._descriptor.queryable_state_name)

    def get_state_descriptor(self) -> QueryableDescriptor:
        """Return the descriptor of the state, which clients can pass with a query."""
        return self._descriptor

    def get_key_type(self) -> TypeInformation | None:
        """Return the type of the keys; None for untyped ones."""
        return self._key_type


def queryable_descriptor(name: str, descriptor: Any, element_type: TypeInformation | None) -> QueryableDescriptor:
    """Return the descriptor of a stream's state: the given one, or a value state with the name.

    Raises:
        JobGraphError: The state would grow without bound, or isn't a state.
        StateError: The name is invalid.
    """
    if descriptor is None:
        descriptor = ValueStateDescriptor(name, element_type)
    if not isinstance(descriptor, (ValueStateDescriptor, ReducingStateDescriptor)):
        kind = descriptor.kind.value if isinstance(descriptor, StateDescriptor) else repr(descriptor)
        message = f"as_queryable_state({name!r}) keeps a value or a reducing state, not {kind}."
        raise JobGraphError(message, hint="keep other state in a KeyedProcessFunction, with descriptor.set_queryable(name)")
    descriptor.set_queryable(name)
    return descriptor


class QueryableStateFunction(KeyedProcessFunction):
    """Puts each element into the state of its key: replaces the last one, or reduces with it."""

    def __init__(self, descriptor: QueryableDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        descriptor = self._descriptor
        if isinstance(descriptor, ReducingStateDescriptor):
            self._take: Any = runtime_context.get_reducing_state(descriptor).add
        else:
            self._take = runtime_context.get_state(descriptor).update

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Add an element to the state."""
        self._take(value)


class DiscardingSink(SinkFunction):
    """A sink that ignores all elements."""

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Do nothing."""
