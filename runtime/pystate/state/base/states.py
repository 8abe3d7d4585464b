"""From a descriptor to its state, over the store a backend made for it."""

from __future__ import annotations

from typing import Any, cast

from pystate.api.state import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from pystate.state.base.backend import KeyedStateBackend
from pystate.state.base.derived_states import DefaultValueState, ValueAggregatingState, ValueReducingState
from pystate.state.base.keys import KeyCodec
from pystate.state.base.list_states import OverlayListState
from pystate.state.base.map_states import OverlayMapState
from pystate.state.base.overlay import OverlayState, value_check
from pystate.state.base.schema import StateSchema
from pystate.state.base.value_states import create_value_state


def create_state(
    descriptor: StateDescriptor, backend: KeyedStateBackend, schema: StateSchema, store: Any
) -> tuple[State, OverlayState]:
    """Return a state as user code sees it, and its running epoch as the backend flushes it.

    Args:
        descriptor: What was declared.
        backend: Whose current key counts.
        schema: Of the descriptor.
        store: The `MapStore`, `ListStore` or, for all other kinds, `ValueStore` of the state.

    Raises:
        StateError: The default value isn't of the state's type.
    """
    name, serializer = descriptor.name, schema.serializer
    if schema.kind is StateKind.MAP:
        map_state = OverlayMapState(name, backend, serializer, store, cast("KeyCodec", schema.user_keys))
        return map_state, map_state
    if schema.kind is StateKind.LIST:
        list_state = OverlayListState(name, backend, serializer, store)
        return list_state, list_state
    values = create_value_state(name, backend, serializer, store)
    if isinstance(descriptor, ReducingStateDescriptor):
        checked = value_check(name, serializer)
        return ValueReducingState(name, values, checked, descriptor.reduce_function), values
    if isinstance(descriptor, AggregatingStateDescriptor):
        return ValueAggregatingState(name, values, descriptor.agg_function), values
    if isinstance(descriptor, ValueStateDescriptor) and descriptor.default_value is not None:
        return DefaultValueState(values, serializer, descriptor.default_value), values
    return values, values
