"""A keyed stream kept as state that clients read: Flink's `KeyedStream.asQueryableState`, which PyFlink doesn't have."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import KeyedProcessFunction, RuntimeContext, SinkFunction
from pystate.core.api.job_graph import Transformation
from pystate.core.api.state import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.datastream.step_settings import StepSettings

QueryableDescriptor = ValueStateDescriptor | ReducingStateDescriptor


class QueryableStateStream(StepSettings):
    """What `as_queryable_state` returns: the step that keeps the elements, whose uid and parallelism may be set.

    Args:
        step: What keeps the elements.
        descriptor: The state's.
        key_type: Of the keys; None for untyped ones.
    """

    def __init__(self, step: Transformation, descriptor: QueryableDescriptor, key_type: TypeInformation | None) -> None:
        super().__init__(step)
        self._descriptor = descriptor
        self._key_type = key_type

    def get_queryable_state_name(self) -> str:
        """Return what clients ask for."""
        return str(self._descriptor.queryable_state_name)

    def get_state_descriptor(self) -> QueryableDescriptor:
        """Return the state's descriptor, which a client may give along with a query."""
        return self._descriptor

    def get_key_type(self) -> TypeInformation | None:
        """Return the type of the keys; None for untyped ones."""
        return self._key_type


def queryable_descriptor(name: str, descriptor: Any, element_type: TypeInformation | None) -> QueryableDescriptor:
    """Return the descriptor of a stream's state: the given one, or a value state with the name.

    Raises:
        JobGraphError: The state would grow without end, or is none.
        StateError: This is no name.
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
    """Puts each element into the state of its key: in the place of the last one, or reduced with it."""

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
        """Take an element."""
        self._take(value)


class DiscardingSink(SinkFunction):
    """Takes no notice of elements."""

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Do nothing."""
