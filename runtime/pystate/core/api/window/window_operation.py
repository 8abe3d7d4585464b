"""The definition of a window operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.common.user_code.used_names import uses_name
from pystate.core.api.functions import AggregateFunction, Function, ReduceFunction, RuntimeContext
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.timer_service import TimerService
from pystate.core.api.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
    WindowAssigner,
)
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from pystate.core.api.window.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

AnyWindowFunction = WindowFunction | ProcessWindowFunction | AllWindowFunction | ProcessAllWindowFunction

_TIMELESS_ASSIGNERS = (CountTumblingWindowAssigner, CountSlidingWindowAssigner, GlobalWindows)
_TIMELESS_TRIGGERS = (CountTrigger, NeverTrigger)


@dataclass(eq=False)
class WindowOperation(Function):
    """A step with windows. It is itself a function: its `open` and `close` call those of the program's functions.

    Attributes:
        assigner: Assigns elements to windows.
        trigger: Determines when they fire.
        allowed_lateness: How long an event-time window is kept after its end, in ms.
        late_tag: The side output of elements that come later than that; None to drop them.
        evictor: Removes elements of a window; None to keep all.
        reduce_function: Combines a window's elements; None if there is none.
        aggregate_function: Aggregates a window's elements; None if there is none.
        accumulator_type: The type of its accumulators; None for untyped.
        window_function: Computes the result of a firing window; None to emit the result of the two above.
        has_output_type: Whether the program declares the type of the results.
    """

    assigner: WindowAssigner
    trigger: Trigger
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    evictor: Evictor | None = None
    reduce_function: ReduceFunction | Callable[[Any, Any], Any] | None = None
    aggregate_function: AggregateFunction | None = None
    accumulator_type: TypeInformation | None = None
    window_function: AnyWindowFunction | None = None
    has_output_type: bool = False

    @property
    def needs_time(self) -> bool:
        """Whether its windows fire, or may fire, by watermarks or processing time: count windows need neither."""
        return type(self.assigner) not in _TIMELESS_ASSIGNERS or type(self._inner_trigger) not in _TIMELESS_TRIGGERS

    @property
    def by_clock(self) -> bool:
        """Whether processing time determines the elements of a result, so that replayed elements may give another one."""
        assigned = type(self.assigner) not in _TIMELESS_ASSIGNERS and not self.assigner.is_event_time()
        return assigned or isinstance(self._inner_trigger, (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger))

    @property
    def by_watermarks(self) -> bool:
        """Whether its windows end, or its trigger fires, by watermarks."""
        trigger = self._inner_trigger
        known = isinstance(trigger, (EventTimeTrigger, ContinuousEventTimeTrigger))
        return self.assigner.is_event_time() or known or uses_name(trigger, TimerService.register_event_time_timer.__name__)

    @property
    def _inner_trigger(self) -> Trigger:
        trigger = self.trigger
        while isinstance(trigger, PurgingTrigger):
            trigger = trigger.nested_trigger
        return trigger

    @property
    def keeps_type(self) -> bool:
        """Whether results have the type of the elements."""
        return self.reduce_function is not None and self.window_function is None and not self.has_output_type

    def functions(self) -> Iterator[Function]:
        """Iterate over the program's functions."""
        for function in (self.reduce_function, self.aggregate_function, self.window_function):
            if isinstance(function, Function):
                yield function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's functions."""
        for function in self.functions():
            function.open(runtime_context)

    def close(self) -> None:
        """Close the program's functions."""
        for function in self.functions():
            function.close()

    def __str__(self) -> str:
        """Return the name of the step in Flink's form: assigner, trigger, function."""
        parts = (self.reduce_function, self.aggregate_function, self.window_function)
        names = [_name_of(part) for part in parts if part is not None]
        return f"Window({', '.join([repr(self.assigner), type(self.trigger).__name__, *names])})"


def _name_of(function: Any) -> str:
    return type(function).__name__ if isinstance(function, Function) else getattr(function, "__name__", "function")
