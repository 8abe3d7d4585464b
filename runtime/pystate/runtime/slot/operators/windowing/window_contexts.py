"""The contexts of window assigners, triggers, evictors and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pystate.common.errors import StateDeclarationError
from pystate.core.api.functions import KeyedStateStore, RuntimeContext
from pystate.core.api.state import State, StateDescriptor
from pystate.core.api.window.assigners import WindowAssigner
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import Trigger
from pystate.core.api.window.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pystate.core.api.window.window_operation import AnyWindowFunction
from pystate.core.metrics.metric import MetricGroup
from pystate.core.state.kinds.internal_state import InternalMergingState
from pystate.runtime.slot.operators.windowing.window_state_stores import (
    MergingWindowStateStore,
    PerWindowStateStore,
    WindowStates,
)
from pystate.runtime.slot.timers.internal_timer_service import InternalTimerService


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The context of an assigner.

    Args:
        timers: Provides the time.
        runtime: The operator's runtime context.
    """

    def __init__(self, timers: InternalTimerService, runtime: RuntimeContext) -> None:
        self._timers = timers
        self._runtime = runtime

    def get_current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._timers.current_processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        """Return the operator's runtime context."""
        return self._runtime


class EvictorContext(Evictor.EvictorContext):
    """The context of an evictor.

    Args:
        timers: Provides the time.
    """

    def __init__(self, timers: InternalTimerService) -> None:
        self._timers = timers

    def get_current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        """Return the current watermark."""
        return self._timers.current_watermark()


class TriggerContext(Trigger.OnMergeContext):
    """The context of a trigger, for the current key and window.

    Args:
        timers: The timer service of windows.
        states: The window states.
        runtime: The operator's runtime context.

    Attributes:
        window: The current window.
        merged: The windows that were merged into it, during a merge.
    """

    def __init__(self, timers: InternalTimerService, states: WindowStates, runtime: RuntimeContext) -> None:
        self._timers = timers
        self._states = states
        self._runtime = runtime
        self._of = states.namespaces.of
        self.window: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._timers.current_processing_time()

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._runtime.get_metrics_group()

    def get_current_watermark(self) -> int:
        """Return the current watermark."""
        return self._timers.current_watermark()

    def register_processing_time_timer(self, time: int) -> None:
        """Register a processing-time timer."""
        self._timers.register_processing_time_timer(self._of(self.window), time)

    def register_event_time_timer(self, time: int) -> None:
        """Register an event-time timer."""
        self._timers.register_event_time_timer(self._of(self.window), time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing-time timer."""
        self._timers.delete_processing_time_timer(self._of(self.window), time)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event-time timer."""
        self._timers.delete_event_time_timer(self._of(self.window), time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        """Return a state of the current window."""
        return self._states.state(state_descriptor, self.window)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge a state of the merged windows into the current window."""
        handle = self._states.handle(state_descriptor)
        if not isinstance(handle, InternalMergingState):
            message = f"{state_descriptor!r} declares {state_descriptor.kind.value} state, which can't be merged."
            raise StateDeclarationError(message, hint="keep it in list, reducing or aggregating state")
        handle.merge_namespaces(self._of(self.window), map(self._of, self.merged))


class WindowContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """The context of a window function, for the current key and window.

    Args:
        timers: Provides the time.
        window_states: The store of per-window states.
        global_states: The store of per-key states.
    """

    def __init__(
        self,
        timers: InternalTimerService,
        window_states: PerWindowStateStore | MergingWindowStateStore,
        global_states: KeyedStateStore,
    ) -> None:
        self._timers = timers
        self._window_states = window_states
        self._global_states = global_states

    def select(self, window: Any) -> None:
        """Set the current window."""
        self._window_states.window = window

    def window(self) -> Any:
        """Return the current window."""
        return self._window_states.window

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Return the current watermark."""
        return self._timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        """Return the store of per-window states."""
        return self._window_states

    def global_state(self) -> KeyedStateStore:
        """Return the store of per-key states."""
        return self._global_states


CallFunction = Callable[[Any, Any, WindowContext, list[Any]], Iterable[Any] | None]
"""(key, window, context, inputs) -> results."""


def window_function_call(function: AnyWindowFunction | None) -> CallFunction:
    """Return the call of any of the four kinds of window function; without one the inputs are the results."""
    if isinstance(function, WindowFunction):
        apply = function.apply
        return lambda key, window, _, inputs: apply(key, window, inputs)
    if isinstance(function, AllWindowFunction):
        apply_all = function.apply
        return lambda _, window, __, inputs: apply_all(window, inputs)
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return lambda key, _, context, inputs: process(key, context, inputs)
    if isinstance(function, ProcessAllWindowFunction):
        process_all = function.process
        return lambda _, __, context, inputs: process_all(context, inputs)
    return lambda _, __, ___, inputs: inputs
