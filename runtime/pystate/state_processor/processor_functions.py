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

    `open` declares the states that are read, with `runtime_context.get_state(...)` and the like. It is called once per Spark
    task, on a copy of the function.
    """

    class Context:
        """What is known beside the key: the timers that a process function has registered for it."""

        @abstractmethod
        def registered_event_time_timers(self) -> list[int]:
            """Return the times of the key's timers by event time, ms since 1970, ascending."""

        @abstractmethod
        def registered_processing_time_timers(self) -> list[int]:
            """Return the times of the key's timers by the clock, ms since 1970, ascending."""

    @abstractmethod
    def read_key(self, key: Any, ctx: KeyedStateReaderFunction.Context) -> Iterable[Any] | None:
        """Return or yield the rows of a key that has a value in one of the declared states."""


class WindowReaderFunction(Function):
    """Reads the windows of an operator. `open` is called once per Spark task, on a copy of the function."""

    class Context:
        """What is known beside the key and what the window holds."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def trigger_state(self, state_descriptor: StateDescriptor) -> State:
            """Return a state that the trigger keeps for the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the states of the window."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the states of the key."""

        @abstractmethod
        def registered_event_time_timers(self) -> list[int]:
            """Return the times of the window's timers by event time, ms since 1970, ascending."""

        @abstractmethod
        def registered_processing_time_timers(self) -> list[int]:
            """Return the times of the window's timers by the clock, ms since 1970, ascending."""

    @abstractmethod
    def read_window(self, key: Any, ctx: WindowReaderFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the rows of a window.

        Args:
            key: The key.
            ctx: Of the window; it isn't to be kept.
            elements: What the window's function would get: the one value or result, or all elements.
        """


class BootstrapContext:
    """What is known beside an element."""

    def current_processing_time(self) -> int:
        """Return the time, ms since 1970."""
        return current_time_ms()


class KeyedStateBootstrapFunction(Function):
    """Writes the states of each key of a new savepoint.

    `open` declares all states that are written. It is called once in the driver, to learn of them, and once per Spark task,
    on copies of the function. Whether it writes timers is told by its methods: one of them asks for `timer_service`.
    """

    class Context(BootstrapContext):
        """What is known beside the element."""

        def timer_service(self) -> TimerService:
            """Return the service that registers timers of the element's key, for the job to fire."""
            raise NotImplementedError

        def get_current_key(self) -> Any:
            """Return the key of the element."""
            raise NotImplementedError

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Write an element to the states of its key; the elements of a key come in the order of the data."""


class StateBootstrapFunction(Function, CheckpointedFunction):
    """Writes the list and union states of one subtask of a new savepoint.

    `initialize_state` declares them, `process_element` takes an element, `snapshot_state` brings the states up to date.
    """

    class Context(BootstrapContext):
        """What is known beside the element."""

    @abstractmethod
    def process_element(self, value: Any, ctx: StateBootstrapFunction.Context) -> None:
        """Take an element."""


class BroadcastStateBootstrapFunction(Function):
    """Writes the broadcast states of a new savepoint."""

    class Context(BootstrapContext):
        """Gives out broadcast states."""

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return the broadcast state of that name."""
            raise NotImplementedError

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastStateBootstrapFunction.Context) -> None:
        """Write an element to broadcast states."""
