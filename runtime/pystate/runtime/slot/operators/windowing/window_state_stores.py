"""States of windows: those of the operator, of triggers, and of the program's functions."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import StateDeclarationError
from pystate.core.api.state import State, StateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.internal_state import InternalKvState
from pystate.runtime.slot.operators.keyed_state_store import DescribedStates
from pystate.runtime.slot.operators.windowing.window_namespaces import WindowNamespaces


class WindowStates:
    """The states with a window per namespace, by descriptor.

    Args:
        backend: Keeps them.
        namespaces: How windows are written.
    """

    def __init__(self, backend: KeyedStateBackend, namespaces: WindowNamespaces) -> None:
        self._backend = backend
        self.namespaces = namespaces
        self._handles: dict[str, tuple[StateDescriptor, InternalKvState]] = {}

    def handle(self, descriptor: StateDescriptor) -> InternalKvState:
        """Return the state of a descriptor. Asked for with each element, so one that is the very same isn't compared."""
        known = self._handles.get(descriptor.name)
        if known is not None and known[0] is descriptor:
            return known[1]
        handle = self._backend.get_or_create_keyed_state(descriptor, self.namespaces.serializer)
        self._handles[descriptor.name] = (descriptor, handle)
        return handle

    def state(self, descriptor: StateDescriptor, window: Any) -> State:
        """Return the state of a descriptor, scoped to a window."""
        handle = self.handle(descriptor)
        handle.set_current_namespace(self.namespaces.of(window))
        state: State = handle.state
        return state


class PerWindowStateStore(DescribedStates):
    """What `window_state()` returns: states of the key and the window in hand.

    Args:
        states: Keeps them.
        where: What errors name as the place.

    Attributes:
        window: The window in hand.
    """

    def __init__(self, states: WindowStates, where: str) -> None:
        super().__init__(where)
        self._states = states
        self.window: Any = None

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        return self._states.state(state_descriptor, self.window)


class MergingWindowStateStore(DescribedStates):
    """What `window_state()` returns for windows that merge: none, since states of any kind can't be merged.

    Attributes:
        window: The window in hand.
    """

    window: Any = None

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        message = f"Windows that merge, such as sessions, have no state of their own ({state_descriptor.name!r})."
        raise StateDeclarationError(message, where=self._where, hint="use global_state(), which all windows of a key share")
