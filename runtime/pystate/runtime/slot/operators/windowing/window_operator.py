"""The window operator (Flink's WindowOperator, and its EvictingWindowOperator)."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import RuntimeContext
from pystate.core.api.window.assigners import MergingWindowAssigner
from pystate.core.api.window.triggers import EventTimeTrigger, ProcessingTimeTrigger, TriggerResult
from pystate.core.api.window.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MAX_TIMESTAMP, MIN_TIMESTAMP
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.operators.windowing.merging_window_set import MergingWindowSet
from pystate.runtime.slot.operators.windowing.pane_conversion import contents_of_panes
from pystate.runtime.slot.operators.windowing.window_contents import contents_descriptor, window_contents
from pystate.runtime.slot.operators.windowing.window_contexts import (
    AssignerContext,
    EvictorContext,
    TriggerContext,
    WindowContext,
    window_function_call,
)
from pystate.runtime.slot.operators.windowing.window_namespaces import window_namespaces
from pystate.runtime.slot.operators.windowing.window_state_stores import (
    MergingWindowStateStore,
    PerWindowStateStore,
    WindowStates,
)
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager

WINDOW_TIMERS = "window-timers"
"""The name of the window timers' service, as in Flink."""

LATE_RECORDS = "numLateRecordsDropped"
"""The counter of elements that were late for all their windows."""


class WindowOperator:
    """Adds elements to windows, and emits the results of firing windows.

    Args:
        operation: The window operation of the program.
        input_type: The type of the elements; None for untyped.
        backend: The keyed state.
        runtime: The operator's runtime context.
        time: The chain's time.
        timers: The operator's timer services.
        output: Receives the results.
        where: The operator's name in errors.
    """

    def __init__(
        self,
        operation: WindowOperation,
        input_type: TypeInformation | None,
        backend: KeyedStateBackend,
        runtime: RuntimeContext,
        time: ChainTime,
        timers: InternalTimeServiceManager,
        output: Output,
        where: str,
    ) -> None:
        assigner, function = operation.assigner, operation.window_function
        self._operation = operation
        self._assigner = assigner
        self._trigger = operation.trigger
        self._lateness = operation.allowed_lateness
        self._by_event_time = assigner.is_event_time()
        self._cleaned_by_trigger = _cleaned_by_trigger(operation)
        self._time = time
        self._output = output
        self._backend = backend
        self._namespaces = window_namespaces(assigner)
        self._timers = timers.get_internal_timer_service(WINDOW_TIMERS, self, self._namespaces.serializer)
        states = self._states = WindowStates(backend, self._namespaces)
        own = self._contents_name
        self._contents = window_contents(operation, input_type, states, EvictorContext(self._timers), own)
        self._assigner_context = AssignerContext(self._timers, runtime)
        self._trigger_context = TriggerContext(self._timers, states, runtime)
        merging = isinstance(assigner, MergingWindowAssigner)
        store = MergingWindowStateStore(where) if merging else PerWindowStateStore(states, where)
        self._context = WindowContext(self._timers, store, runtime)
        self._merging_state = (
            backend.get_partitioned_state(MergingWindowSet.descriptor(self._namespaces)) if merging else None
        )
        self._call = window_function_call(function)
        self._clears = function if isinstance(function, (ProcessWindowFunction, ProcessAllWindowFunction)) else None
        self._late_records = runtime.get_metrics_group().counter(LATE_RECORDS)
        describe = functools.partial(contents_descriptor, operation, input_type)
        event_timers = self._timers.event_time_timers
        contents_of_panes(describe, states, event_timers, backend, own)
        self._restored_until = event_timers.highest_stored()
        """The highest time of restored timers, whose windows may have been created with another lateness."""

    @property
    def _contents_name(self) -> str:
        """The name of the state that holds the contents."""
        return WINDOW_CONTENTS

    def process_element(self, value: Any) -> None:
        """Add an element to its windows; if all of them are late, it goes to the side output or is dropped."""
        timestamp = self._time.timestamp
        if timestamp is None:
            timestamp = MIN_TIMESTAMP
        windows = self._assigner.assign_windows(value, timestamp, self._assigner_context)
        if self._merging_state is None:
            taken = self._add(value, timestamp, windows)
        else:
            taken = self._add_merging(value, timestamp, windows)
        if not taken:
            self._taken_by_none(value, timestamp)

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a window's event-time timer: that of its trigger, its cleanup timer, or both."""
        self._on_timer(timestamp, namespace, by_event_time=True)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a window's processing-time timer; see `on_event_time`."""
        self._on_timer(timestamp, namespace, by_event_time=False)

    def _add(self, value: Any, timestamp: int, windows: Collection[Any]) -> bool:
        taken = False
        for window in windows:
            if not self._is_late(window):
                taken = True
                self._contents.select(window)
                self._add_to(window, value, timestamp)
        return taken

    def _add_merging(self, value: Any, timestamp: int, windows: Collection[Any]) -> bool:
        merging = self._merging_windows()
        taken = False
        for new in windows:
            window = merging.add_window(new, self._merge)
            if self._is_late(window):
                merging.retire_window(window)
                continue
            taken = True
            self._contents.select(merging.state_window(window))
            self._add_to(window, value, timestamp)
        merging.persist()
        return taken

    def _add_to(self, window: Any, value: Any, timestamp: int) -> None:
        self._contents.add(value, timestamp)
        context = self._trigger_context
        context.window = window
        self._heed(self._trigger.on_element(value, timestamp, window, context), window)
        if not self._cleaned_by_trigger:
            context.window = window
            self._register_cleanup_timer(window)

    def _on_timer(self, timestamp: int, namespace: Any, *, by_event_time: bool) -> None:
        window = self._namespaces.window(namespace)
        merging = None if self._merging_state is None else self._merging_windows()
        state_window = window if merging is None else merging.state_window(window)
        if state_window is None:  # a trigger's timer of a window that no longer exists
            return
        self._contents.select(state_window)
        context = self._trigger_context
        context.window = window
        call = self._trigger.on_event_time if by_event_time else self._trigger.on_processing_time
        self._heed(call(timestamp, window, context), window)
        if by_event_time is not self._by_event_time:
            return
        cleanup_time = self._cleanup_time(window)
        if timestamp == cleanup_time:
            self._clear(window, merging)
        elif by_event_time and timestamp <= self._restored_until:
            self._keep_to_lateness(window, timestamp > cleanup_time, merging)

    def _heed(self, result: TriggerResult, window: Any) -> None:
        """Apply a trigger's result to the window whose contents are selected."""
        if result is TriggerResult.CONTINUE:  # the usual case, which is faster to compare by identity
            return
        if result.is_fire():
            inputs = self._contents.fire(window)
            if inputs is not None:
                self._emit(window, inputs)
                self._contents.fired(window)
        if result.is_purge():
            self._contents.clear()

    def _emit(self, window: Any, inputs: list[Any]) -> None:
        """Call the window's function, and emit the results with the timestamp of the timer or element that fires it."""
        output = self._output
        self._context.select(window)
        for result in self._call(self._backend.current_key, window, self._context, inputs) or ():
            output.collect(result)

    def _clear(self, window: Any, merging: MergingWindowSet | None) -> None:
        """Remove a window: contents, trigger state, and the function's states."""
        self._contents.clear()
        self._trigger_context.window = window
        self._trigger.clear(window, self._trigger_context)
        self._clear_function_states(window)
        if merging is not None:
            merging.retire_window(window)
            merging.persist()

    def _keep_to_lateness(self, window: Any, is_over: bool, merging: MergingWindowSet | None) -> None:
        """Remove a restored window, at once or at the time given by the current lateness.

        The step that created the window may have had another lateness. The window then has only the timers of that step, and
        none of them need be at the current cleanup time.
        """
        if is_over:
            self._clear(window, merging)
        else:
            self._trigger_context.window = window
            self._register_cleanup_timer(window)

    def _merge(self, result: Any, merged: list[Any], state_window: Any, merged_state_windows: list[Any]) -> None:
        end = result.max_timestamp()
        now = self._time.watermark if self._by_event_time else self._time.clock()
        if end + (self._lateness if self._by_event_time else 0) <= now:
            message = f"The window {result!r} would end in the past by being merged: it is {now} by now."
            raise StateError(message, hint="have the assigner's merge_windows() merge windows into later ones only")
        context = self._trigger_context
        context.window, context.merged = result, merged
        self._trigger.on_merge(result, context)
        context.merged = []
        for window in merged:
            if window != result:
                context.window = window
                self._trigger.clear(window, context)
                self._delete_cleanup_timer(window)
        self._contents.merge(state_window, merged_state_windows)

    def _pass_by(self, value: Any, timestamp: int) -> None:
        """Handle an element of a batch that belongs to no window, or only to late ones, as `process_element` does."""
        time = self._time
        time.timestamp = timestamp
        try:
            self._taken_by_none(value, timestamp)
        finally:
            time.timestamp = None

    def _clear_function_states(self, window: Any) -> None:
        """Have the function clear its states of a window, for the current key."""
        if self._clears is not None:
            self._context.select(window)
            self._clears.clear(self._context)

    def _taken_by_none(self, value: Any, timestamp: int) -> None:
        if not self._by_event_time or timestamp + self._lateness > self._time.watermark:
            return
        if self._operation.late_tag is None:
            self._late_records.inc()
        else:
            self._output.emit_tagged(self._operation.late_tag, value)

    def _merging_windows(self) -> MergingWindowSet:
        state: Any = self._merging_state
        assert isinstance(self._assigner, MergingWindowAssigner)  # noqa: S101 - it has the state of merging windows
        return MergingWindowSet(self._assigner, state, self._namespaces)

    def _is_late(self, window: Any) -> bool:
        return self._by_event_time and self._cleanup_time(window) <= self._time.watermark

    def _cleanup_time(self, window: Any) -> int:
        """Return the cleanup time of a window; `MAX_TIMESTAMP` for never."""
        end: int = window.max_timestamp()
        return min(end + self._lateness, MAX_TIMESTAMP) if self._by_event_time else end

    def _register_cleanup_timer(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_TIMESTAMP:
            return
        if self._by_event_time:
            self._trigger_context.register_event_time_timer(time)
        else:
            self._trigger_context.register_processing_time_timer(time)

    def _delete_cleanup_timer(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_TIMESTAMP:
            return
        if self._by_event_time:
            self._trigger_context.delete_event_time_timer(time)
        else:
            self._trigger_context.delete_processing_time_timer(time)


def _cleaned_by_trigger(operation: WindowOperation) -> bool:
    """Return whether the trigger's timer is at the cleanup time of a window, so that one timer is enough."""
    if not operation.assigner.is_event_time():
        return type(operation.trigger) is ProcessingTimeTrigger
    return type(operation.trigger) is EventTimeTrigger and operation.allowed_lateness == 0
