"""Creates the state of a descriptor, over a store of the backend."""

from __future__ import annotations

from typing import Any

from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.kinds.derived_states import DefaultValueState, ValueAggregatingState, ValueReducingState
from pystate.core.state.kinds.list_states import OverlayListState
from pystate.core.state.kinds.map_states import OverlayMapState
from pystate.core.state.kinds.overlay import OverlayState, value_check
from pystate.core.state.kinds.value_states import OverlayValueState, create_value_state
from pystate.core.state.ttl.ttl_list_state import TtlListState
from pystate.core.state.ttl.ttl_map_state import TtlMapState
from pystate.core.state.ttl.ttl_serializer import TtlSerializer
from pystate.core.state.ttl.ttl_settings import TtlSettings
from pystate.core.state.ttl.ttl_value_state import TtlValueState


def create_state(
    descriptor: StateDescriptor, context: KeyContext, schema: StateSchema, store: Any
) -> tuple[State, OverlayState]:
    """Return a state for user code, and its running epoch for the backend.

    Args:
        descriptor: The declaration.
        context: Holds the current address.
        schema: The schema of the descriptor.
        store: The `MapStore`, `ListStore` or, for all other kinds, `ValueStore` of the state.

    Raises:
        StateError: The default value isn't of the state's type.
    """
    state = _create_overlay(descriptor, context, schema, store)
    if isinstance(state, (OverlayMapState, OverlayListState, TtlMapState)):
        return state, state
    if isinstance(descriptor, ReducingStateDescriptor):
        checked = value_check(descriptor.name, schema.values)
        return ValueReducingState(descriptor.name, state, checked, descriptor.reduce_function), state
    if isinstance(descriptor, AggregatingStateDescriptor):
        checked = value_check(descriptor.name, schema.values)
        return ValueAggregatingState(descriptor.name, state, checked, descriptor.agg_function), state
    default = descriptor.default_value if isinstance(descriptor, ValueStateDescriptor) else None
    if default is None or schema.has_ttl:  # a time to live leaves no default, as in Flink
        return state, state
    return DefaultValueState(state, schema.serializer, default), state


def _create_overlay(
    descriptor: StateDescriptor, context: KeyContext, schema: StateSchema, store: Any
) -> OverlayMapState | OverlayListState | OverlayValueState | TtlMapState | TtlValueState:
    name, serializer = descriptor.name, schema.serializer
    if descriptor.ttl_config is not None and isinstance(serializer, TtlSerializer):
        settings = TtlSettings.of(descriptor.ttl_config, context.clock)
        if schema.user_keys is not None:
            return TtlMapState(name, context, serializer, store, schema.user_keys, settings)
        if schema.kind is StateKind.LIST:
            return TtlListState(name, context, serializer, store, settings)
        return TtlValueState(name, context, serializer, store, settings)
    if schema.user_keys is not None:
        return OverlayMapState(name, context, serializer, store, schema.user_keys)
    if schema.kind is StateKind.LIST:
        return OverlayListState(name, context, serializer, store)
    return create_value_state(name, context, serializer, store)
