"""Windowed streams: the results of `window(...)`, `count_window(...)` and `window_all(...)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation, check_field
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.functions import AggregateFunction, Function, ReduceFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.transformations import OneInputTransformation
from pystate.core.api.window.assigners import MergingWindowAssigner, WindowAssigner
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import Trigger
from pystate.core.api.window.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pystate.core.api.window.window_operation import AnyWindowFunction, WindowOperation
from pystate.datastream.connected_streams import InputStream
from pystate.datastream.wrong_functions import check_function, shown

StreamT = TypeVar("StreamT")
SelfWindows = TypeVar("SelfWindows", bound="_WindowedStream[Any]")

_CHECKPOINTED = (CheckpointedFunction, ListCheckpointed, CheckpointListener)


class _WindowedStream(Generic[StreamT]):
    """Base of windowed streams with and without a key; generic in the resulting stream.

    Args:
        keyed_stream: The stream.
        window_assigner: Assigns elements to windows.

    Raises:
        JobGraphError: It isn't an assigner.
    """

    _apply_function: type[Function]
    _process_function: type[Function]

    def __init__(self, keyed_stream: InputStream[StreamT], window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            message = f"A window is cut by a WindowAssigner, not by {window_assigner!r}."
            raise JobGraphError(message, hint="write window(TumblingEventTimeWindows.of(Time.seconds(10)))")
        self._stream = keyed_stream
        self._operation = WindowOperation(window_assigner, window_assigner.get_default_trigger(None))

    def get_execution_environment(self) -> Any:
        """Return the environment the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation | None:
        """Return the type of the elements; None if untyped."""
        return self._stream.transformation.output_type

    def trigger(self: SelfWindows, trigger: Trigger) -> SelfWindows:
        """Set the trigger, which replaces the assigner's default trigger.

        Raises:
            JobGraphError: It isn't a trigger, or it can't merge and the windows do.
        """
        if not isinstance(trigger, Trigger):
            message = f"trigger() takes a Trigger, not {shown(trigger)}."
            raise JobGraphError(message)
        if isinstance(self._operation.assigner, MergingWindowAssigner) and not trigger.can_merge():
            message = f"{self._operation.assigner!r} merges windows, which {type(trigger).__name__} can't do."
            raise JobGraphError(message, hint="give it can_merge() and on_merge(), or use another trigger")
        self._operation.trigger = trigger
        return self

    def allowed_lateness(self: SelfWindows, time_ms: int) -> SelfWindows:
        """Keep event-time windows for this many ms after their end: until then each late element fires again.

        Raises:
            JobGraphError: It isn't a number from 0 on.
        """
        if not isinstance(time_ms, int) or isinstance(time_ms, bool) or time_ms < 0:
            message = f"allowed_lateness() takes a number of milliseconds from 0 on, not {time_ms!r}."
            raise JobGraphError(message)
        self._operation.allowed_lateness = time_ms
        return self

    def side_output_late_data(self: SelfWindows, output_tag: OutputTag) -> SelfWindows:
        """Send elements that are too late for all their windows to a side output instead of dropping them.

        Raises:
            JobGraphError: It isn't an `OutputTag`.
        """
        if not isinstance(output_tag, OutputTag):
            message = f"side_output_late_data() takes an OutputTag, not {shown(output_tag)}."
            raise JobGraphError(message)
        self._operation.late_tag = output_tag
        return self

    def evictor(self: SelfWindows, evictor: Evictor) -> SelfWindows:
        """Set the evictor, which removes elements from firing windows. Windows then keep all elements, also for reduce().

        Raises:
            JobGraphError: It isn't an `Evictor`.
        """
        if not isinstance(evictor, Evictor):
            message = f"evictor() takes an Evictor, not {shown(evictor)}."
            raise JobGraphError(message)
        self._operation.evictor = evictor
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: AnyWindowFunction | None = None,
        output_type: TypeInformation | None = None,
    ) -> StreamT:
        """Reduce the elements of a window to one; only the intermediate result is kept.

        Args:
            reduce_function: Combines two elements into one.
            window_function: Gets the result, and returns the window's output; None to emit the result.
            output_type: The type of the output; by default that of the elements, with a window function untyped.
        """
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            message = f"reduce() takes a ReduceFunction, or a function of two elements, not {shown(reduce_function)}."
            raise JobGraphError(message)
        operation = replace(self._operation, reduce_function=reduce_function)
        return self._then("reduce", operation, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AnyWindowFunction | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> StreamT:
        """Aggregate the elements of a window in an accumulator; only the accumulator is kept.

        Args:
            aggregate_function: Adds elements to the accumulator.
            window_function: Gets the result, and returns the window's output; None to emit the result.
            accumulator_type: The type of the accumulator; untyped by default.
            output_type: The type of the output; untyped by default.
        """
        if not isinstance(aggregate_function, AggregateFunction):
            message = f"aggregate() takes an AggregateFunction, not {shown(aggregate_function)}."
            raise JobGraphError(message)
        operation = replace(self._operation, aggregate_function=aggregate_function, accumulator_type=accumulator_type)
        return self._then("aggregate", operation, window_function, output_type)

    def sum(self, field: int | str = 0) -> StreamT:
        """Emit for each window its first element with the sum of a field over all of them.

        In Flink's Java API, not in PyFlink. Event-time windows sum integers batch by batch, as columns.

        Args:
            field: The field of tuples, lists or rows, by position or by name; 0 for elements without fields.

        Raises:
            JobGraphError: The elements have no such field.
        """
        return self._accumulate(AccumulateType.SUM, field, "sum")

    def min(self, field: int | str = 0) -> StreamT:
        """Emit for each window its first element with the lowest value of a field, see `sum`."""
        return self._accumulate(AccumulateType.MIN, field, "min")

    def max(self, field: int | str = 0) -> StreamT:
        """Emit for each window its first element with the highest value of a field, see `sum`."""
        return self._accumulate(AccumulateType.MAX, field, "max")

    def count(self, window_function: AnyWindowFunction | None = None, output_type: TypeInformation | None = None) -> StreamT:
        """Emit the number of elements of each window (pystate only). Event-time windows count batch by batch.

        Args:
            window_function: Gets the count, and returns the window's output; None to emit the count, as a LONG.
            output_type: The type of the window function's output; untyped by default.
        """
        if window_function is None:
            output_type = Types.LONG()
        return self.aggregate(ElementCount(), window_function, Types.LONG(), output_type)

    def _accumulate(self, kind: AccumulateType, field: int | str, method: str) -> StreamT:
        check_field(field, self.get_input_type(), method)
        return self.reduce(FieldAggregation(kind, field))

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> StreamT:
        """Call a function with all elements of each window that fires."""
        self._check(window_function, (self._apply_function,), "apply")
        return self._then("apply", replace(self._operation), window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> StreamT:
        """Call a function with all elements of each window that fires, and a context with time and state."""
        self._check(process_window_function, (self._process_function,), "process")
        return self._then("process", replace(self._operation), process_window_function, output_type)

    def _then(
        self,
        method: str,
        operation: WindowOperation,
        function: AnyWindowFunction | None,
        output_type: TypeInformation | None,
    ) -> StreamT:
        """Return the stream of a step with a copy of the operation, since windows may be used for several steps."""
        if function is not None:
            self._check(function, (self._apply_function, self._process_function), method)
        operation.window_function, operation.has_output_type = function, output_type is not None
        for part in operation.functions():
            if isinstance(part, _CHECKPOINTED):
                message = f"{type(part).__name__} is a function of windows, which takes no part in checkpoints itself."
                raise JobGraphError(message, hint="keep its state in window_state() or global_state()")
        parent = self._stream.transformation
        if operation.keeps_type:
            output_type = parent.output_type
        step = OneInputTransformation(
            str(operation),
            (parent,),
            output_type,
            parallelism=self._parallelism(),
            kind=OperatorKind.WINDOW,
            function=operation,
            keyed=True,
        )
        return self._stream.followed_by(step)

    def _parallelism(self) -> int | None:
        return None

    def _check(self, function: Any, expected: tuple[type[Function], ...], method: str) -> None:
        check_function(function, expected, f"{method}() of a window")


class WindowedStream(_WindowedStream[StreamT]):
    """A keyed stream with windows per key."""

    _apply_function = WindowFunction
    _process_function = ProcessWindowFunction


class AllWindowedStream(_WindowedStream[StreamT]):
    """A stream with windows over all elements, which run in one subtask."""

    _apply_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction

    def _parallelism(self) -> int | None:
        return 1
