"""The states of windows: those of the operator, of triggers, and of user functions."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import StateDeclarationError
from pystate.core.api.state import State, StateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.internal_state import InternalKvState
from pystate.runtime.slot.operators.keyed_state_store import DescribedStates
from pystate.runtime.slot.operators.windowing.window_namespaces import WindowNamespaces


class WindowStates:
    """The states with a namespace per window, by descriptor.

    Args:
        backend: The state backend.
        namespaces: Converts windows to namespaces.
    """

    def __init__(self, backend: KeyedStateBackend, namespaces: WindowNamespaces) -> None:
        self._backend = backend
        self.namespaces = namespaces
        self._handles: dict[str, tuple[StateDescriptor, InternalKvState]] = {}

    def handle(self, descriptor: StateDescriptor) -> InternalKvState:
        """Return the state of a descriptor. Called for every element, so an identical descriptor object is not compared."""
        known = self._handles.get(descriptor.name)
        if known is not None:
            declared, handle = known
            if declared is descriptor:
                return handle
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
    """The store returned by `window_state()`: states of the current key and window.

    Args:
        states: The window states.
        where: The operator's name in errors.

    Attributes:
        window: The current window.
    """

    def __init__(self, states: WindowStates, where: str) -> None:
        super().__init__(where)
        self._states = states
        self.window: Any = None

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        return self._states.state(state_descriptor, self.window)


class MergingWindowStateStore(DescribedStates):
    """The store returned by `window_state()` for merging windows: it rejects all states, since not all kinds can be merged.

    Attributes:
        window: The current window.
    """

    window: Any = None

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        message = f"Windows that merge, such as sessions, have no state of their own ({state_descriptor.name!r})."
        raise StateDeclarationError(message, where=self._where, hint="use global_state(), which all windows of a key share")
