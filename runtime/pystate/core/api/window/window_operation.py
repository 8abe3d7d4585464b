"""What a program says of a step with windows, all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import AggregateFunction, Function, ReduceFunction, RuntimeContext
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
    WindowAssigner,
)
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
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
    """A step with windows. It is a function, so that it has the life of one, and opens those of the program.

    Attributes:
        assigner: Which windows an element belongs to.
        trigger: When they fire.
        allowed_lateness: How long a window of event time stays behind its end, in ms.
        late_tag: The side output of elements that come later yet; None to drop them.
        evictor: What of a window's elements counts; None for all.
        reduce_function: Makes one of a window's elements; None if there is none.
        aggregate_function: Gathers a window's elements; None if there is none.
        accumulator_type: The type of what it gathers them in; None for untyped.
        window_function: What a window that fires comes to; None for what the two above make of it.
        has_output_type: Whether the program says of what type the results are.
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
        """Whether watermarks or the clock say when its windows fire, or may say so: count windows need neither."""
        return type(self.assigner) not in _TIMELESS_ASSIGNERS or type(self._inner_trigger) not in _TIMELESS_TRIGGERS

    @property
    def by_clock(self) -> bool:
        """Whether the clock says which elements make a result, so that elements that come again may make another."""
        assigned = type(self.assigner) not in _TIMELESS_ASSIGNERS and not self.assigner.is_event_time()
        return assigned or isinstance(self._inner_trigger, (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger))

    @property
    def _inner_trigger(self) -> Trigger:
        trigger = self.trigger
        while isinstance(trigger, PurgingTrigger):
            trigger = trigger.nested_trigger
        return trigger

    @property
    def keeps_type(self) -> bool:
        """Whether results are of the type of the elements."""
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
        """Return how the step is called, as Flink has it: assigner, trigger, function."""
        parts = (self.reduce_function, self.aggregate_function, self.window_function)
        names = [_name_of(part) for part in parts if part is not None]
        return f"Window({', '.join([repr(self.assigner), type(self.trigger).__name__, *names])})"


def _name_of(function: Any) -> str:
    return type(function).__name__ if isinstance(function, Function) else getattr(function, "__name__", "function")
