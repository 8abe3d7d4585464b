"""A harness for each shape of operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ReduceFunction,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.window.assigners import WindowAssigner
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import Trigger
from pystate.core.api.window.window_operation import AnyWindowFunction, WindowOperation
from pystate.testing.harness import HarnessInput, OperatorTestHarness

H = TypeVar("H", bound=OperatorTestHarness)


def _kind(function: Any, kind: OperatorKind | None) -> OperatorKind:
    known = ((one, one.traits.function) for one in OperatorKind)
    found = kind or next((one for one, cls in known if cls is not None and isinstance(function, cls)), None)
    if found is None:
        message = f"It can't be told how {function!r} is to be called."
        raise JobGraphError(message, hint="give kind=, such as OperatorKind.MAP")
    return found


class OneInputOperatorTestHarness(OperatorTestHarness):
    """A harness for a function over one non-keyed stream: map, flat_map, filter, process, a sink.

    Args:
        function: A function object, or a plain function.
        kind: How it is called; None to derive it from its class.
        input_type: The type of the elements; None for untyped.
        options: See `OperatorTestHarness`.
    """

    def __init__(
        self,
        function: Any,
        *,
        kind: OperatorKind | None = None,
        input_type: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        super().__init__(_kind(function, kind), function, [HarnessInput(input_type)], **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element; its timestamp is in ms since 1970, None for none."""
        self._process(0, [value], [timestamp])

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int | None] | None = None) -> None:
        """Process elements in one batch, each with its timestamp in ms since 1970; None without timestamps."""
        self._process(0, values, timestamps)

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time, ms since 1970, and fire the timers that are due."""
        self._process_watermark(0, timestamp)


class KeyedOneInputOperatorTestHarness(OperatorTestHarness):
    """A harness for a function directly after key_by(): process, reduce, and map, flat_map, filter with keyed state.

    Args:
        function: A function object, or a plain function.
        key_selector: Returns the key of an element.
        key_type: The type of the keys; None for untyped.
        kind: How the function is called; None to derive it from its class.
        input_type: The type of the elements; None for untyped.
        options: See `OperatorTestHarness`.
    """

    def __init__(
        self,
        function: Any,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None = None,
        *,
        kind: OperatorKind | None = None,
        input_type: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        inputs = [HarnessInput(input_type, key_selector)]
        super().__init__(_kind(function, kind), function, inputs, key_type=key_type, **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element; its timestamp is in ms since 1970, None for none.

        Raises:
            ControlError: This subtask doesn't own its key.
        """
        self._process(0, [value], [timestamp])

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int | None] | None = None) -> None:
        """Process elements in one batch, each with its timestamp in ms since 1970; None without timestamps."""
        self._process(0, values, timestamps)

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time, ms since 1970, and fire the timers that are due."""
        self._process_watermark(0, timestamp)


class WindowOperatorTestHarness(KeyedOneInputOperatorTestHarness):
    """A harness for a windowed step after key_by().

    Args:
        assigner: Assigns elements to windows.
        key_selector: Returns the key of an element.
        key_type: The type of the keys; None for untyped.
        trigger: When windows fire; None for the assigner's own trigger.
        allowed_lateness: How long a window is kept after its end, in ms.
        late_tag: The side output of late elements, which is collected.
        evictor: Removes elements from firing windows.
        reduce_function: See `reduce(...)`.
        aggregate_function: See `aggregate(...)`.
        accumulator_type: See `aggregate(...)`.
        window_function: The function of `apply(...)` or `process(...)`, or the window function of `reduce(...)` and
            `aggregate(...)`.
        options: `input_type`, and those of `OperatorTestHarness`.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None = None,
        *,
        trigger: Trigger | None = None,
        allowed_lateness: int = 0,
        late_tag: OutputTag | None = None,
        evictor: Evictor | None = None,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any] | None = None,
        aggregate_function: AggregateFunction | None = None,
        accumulator_type: TypeInformation | None = None,
        window_function: AnyWindowFunction | None = None,
        side_outputs: Iterable[OutputTag] = (),
        **options: Any,
    ) -> None:
        operation = WindowOperation(
            assigner,
            trigger or assigner.get_default_trigger(None),
            allowed_lateness,
            late_tag,
            evictor,
            reduce_function,
            aggregate_function,
            accumulator_type,
            window_function,
        )
        collected = [*side_outputs, *([] if late_tag is None else [late_tag])]
        super().__init__(operation, key_selector, key_type, kind=OperatorKind.WINDOW, side_outputs=collected, **options)


class TwoInputOperatorTestHarness(OperatorTestHarness):
    """A harness for a function over two streams, both keyed or neither.

    Args:
        function: A function object.
        key_selector1: Returns the key of an element of the first stream; None for non-keyed streams.
        key_selector2: The same for the second.
        key_type: The type of the keys; None for untyped.
        input_type1: The type of the first stream's elements; None for untyped.
        input_type2: The same for the second.
        options: See `OperatorTestHarness`.
    """

    def __init__(
        self,
        function: Any,
        key_selector1: Callable[[Any], Any] | None = None,
        key_selector2: Callable[[Any], Any] | None = None,
        key_type: TypeInformation | None = None,
        *,
        input_type1: TypeInformation | None = None,
        input_type2: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        inputs = [HarnessInput(input_type1, key_selector1), HarnessInput(input_type2, key_selector2)]
        super().__init__(_kind(function, None), function, inputs, key_type=key_type, **options)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the first stream; its timestamp is in ms since 1970, None for none."""
        self._process(0, [value], [timestamp])

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the second stream; its timestamp is in ms since 1970, None for none."""
        self._process(1, [value], [timestamp])

    def process_watermark1(self, timestamp: int) -> None:
        """Advance the first stream's event time, ms since 1970; the operator's is the lower of both."""
        self._process_watermark(0, timestamp)

    def process_watermark2(self, timestamp: int) -> None:
        """Advance the second stream's event time, ms since 1970."""
        self._process_watermark(1, timestamp)


class BroadcastOperatorTestHarness(OperatorTestHarness):
    """A harness for a function over a stream and a broadcast stream.

    In a job the broadcast elements of an epoch are processed before its data elements; here the test determines the order.

    Args:
        function: A `BroadcastProcessFunction`, or a `KeyedBroadcastProcessFunction`.
        descriptors: The broadcast states; see `broadcast(...)`.
        key_selector: Returns the key of a data element; None for a non-keyed stream.
        key_type: The type of the keys; None for untyped.
        input_type: The type of the data elements; None for untyped.
        broadcast_type: The type of the broadcast elements; None for untyped.
        options: See `OperatorTestHarness`.
    """

    def __init__(
        self,
        function: Any,
        descriptors: Iterable[MapStateDescriptor],
        key_selector: Callable[[Any], Any] | None = None,
        key_type: TypeInformation | None = None,
        *,
        input_type: TypeInformation | None = None,
        broadcast_type: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        inputs = [HarnessInput(input_type, key_selector), HarnessInput(broadcast_type, broadcast=True)]
        super().__init__(_kind(function, None), function, inputs, key_type=key_type, descriptors=descriptors, **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the data stream; its timestamp is in ms since 1970, None for none."""
        self._process(0, [value], [timestamp])

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int | None] | None = None) -> None:
        """Process elements of the data stream in one batch, each with its timestamp; None without timestamps."""
        self._process(0, values, timestamps)

    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process a broadcast element."""
        self._process(1, [value], [timestamp])

    def process_watermark(self, timestamp: int) -> None:
        """Advance the data stream's event time, ms since 1970; the operator's is the lower of both streams."""
        self._process_watermark(0, timestamp)

    def process_broadcast_watermark(self, timestamp: int) -> None:
        """Advance the broadcast stream's event time, ms since 1970."""
        self._process_watermark(1, timestamp)


class ProcessFunctionTestHarnesses:
    """Returns opened harnesses for process functions, with Flink's names. For `options` see the classes of the harnesses."""

    @staticmethod
    def for_process_function(function: ProcessFunction, **options: Any) -> OneInputOperatorTestHarness:
        """Return a harness for a function over a non-keyed stream."""
        return _opened(OneInputOperatorTestHarness(function, **options))

    @staticmethod
    def for_keyed_process_function(
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None = None,
        **options: Any,
    ) -> KeyedOneInputOperatorTestHarness:
        """Return a harness for a function over a keyed stream."""
        return _opened(KeyedOneInputOperatorTestHarness(function, key_selector, key_type, **options))

    @staticmethod
    def for_co_process_function(function: CoProcessFunction, **options: Any) -> TwoInputOperatorTestHarness:
        """Return a harness for a function over two non-keyed streams."""
        return _opened(TwoInputOperatorTestHarness(function, **options))

    @staticmethod
    def for_keyed_co_process_function(
        function: KeyedCoProcessFunction,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        key_type: TypeInformation | None = None,
        **options: Any,
    ) -> TwoInputOperatorTestHarness:
        """Return a harness for a function over two keyed streams."""
        return _opened(TwoInputOperatorTestHarness(function, key_selector1, key_selector2, key_type, **options))

    @staticmethod
    def for_broadcast_process_function(
        function: BroadcastProcessFunction, *descriptors: MapStateDescriptor, **options: Any
    ) -> BroadcastOperatorTestHarness:
        """Return a harness for a function over a non-keyed stream and a broadcast one."""
        return _opened(BroadcastOperatorTestHarness(function, descriptors, **options))

    @staticmethod
    def for_keyed_broadcast_process_function(
        function: KeyedBroadcastProcessFunction,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        *descriptors: MapStateDescriptor,
        **options: Any,
    ) -> BroadcastOperatorTestHarness:
        """Return a harness for a function over a keyed stream and a broadcast one."""
        return _opened(BroadcastOperatorTestHarness(function, descriptors, key_selector, key_type, **options))


def _opened(harness: H) -> H:
    harness.open()
    return harness
