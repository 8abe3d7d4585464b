"""The functions of the state processor: Flink's `KeyedStateReaderFunction` and bootstrap functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from pystate.common.time import current_time_ms
from pystate.core.api.checkpointed import CheckpointedFunction
from pystate.core.api.functions import Function, KeyedStateStore
from pystate.core.api.state import BroadcastState, MapStateDescriptor, State, StateDescriptor
from pystate.core.api.timer_service import TimerService


class KeyedStateReaderFunction(Function):
    """Reads the states of each key of an operator.

    `open` declares the states to read, with `runtime_context.get_state(...)` and the like. It is called once per Spark
    task, on a copy of the function.
    """

    class Context:
        """Information about the current key: the timers that a process function has registered."""

        @abstractmethod
        def registered_event_time_timers(self) -> list[int]:
            """Return the times of the key's event-time timers, ms since 1970, ascending."""

        @abstractmethod
        def registered_processing_time_timers(self) -> list[int]:
            """Return the times of the key's processing-time timers, ms since 1970, ascending."""

    @abstractmethod
    def read_key(self, key: Any, ctx: KeyedStateReaderFunction.Context) -> Iterable[Any] | None:
        """Return or yield the rows of a key that has a value in at least one declared state."""


class WindowReaderFunction(Function):
    """Reads the windows of an operator. `open` is called once per Spark task, on a copy of the function."""

    class Context:
        """Information about the current window."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def trigger_state(self, state_descriptor: StateDescriptor) -> State:
            """Return a state of the trigger for the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the per-window state."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the per-key state."""

        @abstractmethod
        def registered_event_time_timers(self) -> list[int]:
            """Return the times of the window's event-time timers, ms since 1970, ascending."""

        @abstractmethod
        def registered_processing_time_timers(self) -> list[int]:
            """Return the times of the window's processing-time timers, ms since 1970, ascending."""

    @abstractmethod
    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the rows of a window.

        Args:
            key: The key.
            ctx: The context of the window; don't keep it.
            elements: The input of the window's function: the one value or result, or all elements.
        """


class BootstrapContext:
    """Base of the contexts of bootstrap functions."""

    def current_processing_time(self) -> int:
        """Return the time, ms since 1970."""
        return current_time_ms()


class KeyedStateBootstrapFunction(Function):
    """Writes the states of each key of a new savepoint.

    `open` declares all states to write. It is called once in the driver, to find them, and once per Spark task, on copies of
    the function. A function writes timers if one of its methods uses `timer_service`.
    """

    class Context(BootstrapContext):
        """What is known beside the element."""

        def timer_service(self) -> TimerService:
            """Return the service that registers timers of the element's key, which the job will fire."""
            raise NotImplementedError

        def get_current_key(self) -> Any:
            """Return the key of the element."""
            raise NotImplementedError

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Write an element to the state of its key; the elements of a key come in the order of the data."""


class StateBootstrapFunction(Function, CheckpointedFunction):
    """Writes the list and union state of one subtask of a new savepoint.

    `initialize_state` declares the states, `process_element` processes an element, `snapshot_state` updates the states.
    """

    class Context(BootstrapContext):
        """What is known beside the element."""

    @abstractmethod
    def process_element(self, value: Any, ctx: StateBootstrapFunction.Context) -> None:
        """Process an element."""


class BroadcastStateBootstrapFunction(Function):
    """Writes the broadcast state of a new savepoint."""

    class Context(BootstrapContext):
        """Gives access to broadcast states."""

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return the broadcast state of this name."""
            raise NotImplementedError

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastStateBootstrapFunction.Context) -> None:
        """Write an element to the broadcast states."""
