"""The store from which functions get keyed states by descriptor, with descriptive errors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

from pystate.common.errors import StateDeclarationError
from pystate.core.api.functions import KeyedStateStore
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class DescribedStates(KeyedStateStore):
    """The common part of all keyed state stores.

    Args:
        where: The operator's name in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the keyed value state of that name."""
        return cast("ValueState[Any]", self._keyed_state(state_descriptor, ValueStateDescriptor))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the keyed list state of that name."""
        return cast("ListState[Any]", self._keyed_state(state_descriptor, ListStateDescriptor))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the keyed map state of that name."""
        return cast("MapState[Any, Any]", self._keyed_state(state_descriptor, MapStateDescriptor))

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the keyed reducing state of that name."""
        return cast("ReducingState[Any]", self._keyed_state(state_descriptor, ReducingStateDescriptor))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the keyed aggregating state of that name."""
        return cast("AggregatingState[Any, Any]", self._keyed_state(state_descriptor, AggregatingStateDescriptor))

    @abstractmethod
    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        """Return the state that a descriptor declares."""

    def _keyed_state(self, descriptor: StateDescriptor, wanted: type[StateDescriptor]) -> State:
        check_declaration(descriptor, wanted, self._where)
        return self._described_state(descriptor)


def check_declaration(descriptor: Any, wanted: type[StateDescriptor], where: str) -> None:
    """Reject what is given to a method that returns a state, unless it declares a state of that kind.

    Args:
        descriptor: What is given.
        wanted: The class of descriptors that the method takes.
        where: The operator, for errors.

    Raises:
        StateDeclarationError: It declares none, or one of another kind.
    """
    if not isinstance(descriptor, StateDescriptor):
        message = f"{wanted.getter}() takes a {wanted.__name__}, not {descriptor!r}."
        hint = f'write {wanted.getter}({wanted.__name__}("name", ...))'
        raise StateDeclarationError(message, where=where, hint=hint)
    if descriptor.kind is not wanted.kind:
        message = f"{descriptor!r} declares {descriptor.kind.value} state, {wanted.kind.value} state was asked for."
        hint = f"use {descriptor.getter}(...), or declare it with a {wanted.__name__}"
        raise StateDeclarationError(message, where=where, hint=hint)


def keyless_state(operator: str, uid: str, state: str, kind: OperatorKind, *, keyed: bool) -> StateDeclarationError | None:
    """Return the error for keyed state that an operator can't have; None if it can.

    Args:
        operator: Its name.
        uid: Its uid.
        state: The name of the state.
        kind: The operator's kind.
        keyed: Whether it stands directly after key_by().
    """
    if kind.traits.asynchronous:
        message = f"The AsyncFunction of {operator!r} asks for the keyed state {state!r}."
        hint = "its calls run while other keys are the current one: keep state in a process function before or after it"
    elif not keyed:
        message = f"{operator!r} asks for the keyed state {state!r} on a stream without a key."
        hint = "put key_by(...) directly before it"
    else:
        return None
    return StateDeclarationError(message, where=f"uid {uid}", hint=hint)
