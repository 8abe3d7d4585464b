"""User-defined functions and the contexts they run in.

Names and signatures are those of `pyflink.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from pystate.core.api.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from pystate.core.api.timer_service import TimeDomain, TimerService
from pystate.core.api.type_variables import IN, IN1, IN2, KEY, OUT, K, T, V
from pystate.core.metrics.metric import MetricGroup

if TYPE_CHECKING:
    from pystate.core.api.keyed_batch import KeyedBatch


class KeyedStateStore(ABC):
    """Provides keyed states, each scoped to the key of the current element.

    All methods raise StateError where the stream is not keyed, or the name is taken by a state of another kind or type.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return the value state of that name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the list state of that name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the map state of that name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return the reducing state of that name."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[IN, OUT]) -> AggregatingState[IN, OUT]:
        """Return the aggregating state of that name."""


class RuntimeContext(KeyedStateStore):
    """Information about the subtask a function runs in; passed to `Function.open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task, made of its chained operators: `counter, Map -> Sink: Print`."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the task with the subtask, from 1, and the attempt, from 0: `counter (1/2)#0`."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups of the operator's state."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of this execution attempt, from 0; it grows with every restart of the job."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a value of the job's configuration."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group of the operator's metrics."""

    def get_metric_group(self) -> MetricGroup:
        """Return the group of the operator's metrics, under the name that it has in Java and in PyFlink's tables."""
        return self.get_metrics_group()


class Function(ABC):  # noqa: B024 - the root of all functions; none of its methods must be overridden
    """The base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional hook
        """Initialize the function; called before the first element.

        Called once per subtask and execution attempt; upstream of the first shuffle, once per Spark Python worker.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release what `open` acquired."""


class MapFunction(Function):
    """Maps one element to one element."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the element that replaces `value`."""


class FlatMapFunction(Function):
    """Maps one element to any number of elements."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the elements that replace `value`."""


class FilterFunction(Function):
    """Keeps or drops elements."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep `value`."""


class ReduceFunction(Function):
    """Combines two elements into one of the same type. Must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combined value."""


class AggregateFunction(Function):
    """Aggregates elements in an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with `value` added; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result of the accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return the merged accumulator."""


class SinkFunction(Function):
    """Writes elements to the outside. Runs in the slots, next to the state.

    After a failure elements since the latest checkpoint come again: at-least-once, unless the function itself does better.
    """

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark of the sink, ms since 1970."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

    @abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write one element."""


class CoMapFunction(Function):
    """Maps an element of either of two streams to one element or none."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Map an element of the first stream; None drops it."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Map an element of the second stream; None drops it."""


class CoFlatMapFunction(Function):
    """Maps an element of either of two streams to any number of elements."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the elements that replace one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the elements that replace one of the second stream."""


class KeySelector(Function):
    """Extracts the key of an element. Must be deterministic."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of `value`."""


class Partitioner(Function):
    """Selects the subtask that gets an element."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the subtask for a key, from 0 up to but excluding `num_partitions`."""


class KeyedProcessFunction(Function):
    """Processes elements of a keyed stream, with access to keyed state and timers."""

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service."""

    class OnTimerContext(Context):
        """Information about the firing timer; `timestamp()` is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the time domain of the timer."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element; yield or return the output."""

    def process_batch(self, batch: KeyedBatch, ctx: KeyedProcessFunction.Context) -> Any:
        """Process many elements at once; if a function has this method, `process_element` isn't called.

        It is for functions that can work on columns: one read and one write of state per key, column operations in between.

        Args:
            batch: The elements, their keys and their state.
            ctx: As in `process_element`, for the key set by `batch.set_current_key`. `timestamp()` is the latest time in the
                batch; all results get it.

        Returns:
            The output: a `pyarrow.RecordBatch` or `Table` or a `pandas.DataFrame` with a column per field of
            the output type, or elements; None for nothing.
        """
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Handle a timer, with access to the state of its key; yield or return the output.

        Args:
            timestamp: The time the timer was registered for, ms since 1970.
            ctx: Its context.
        """


class KeyedBatchProcessFunction(KeyedProcessFunction):
    """A `KeyedProcessFunction` that has no `process_element`: it takes batches only."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Not called, since there is `process_batch`."""
        raise NotImplementedError

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: KeyedProcessFunction.Context) -> Any:
        """Process many elements at once, see `KeyedProcessFunction.process_batch`."""


class ProcessFunction(Function):
    """Processes elements of a non-keyed stream."""

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service, which only tells the time: timers need a key."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element; yield or return the output."""


class CoProcessFunction(Function):
    """Processes elements of two connected streams."""

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service, which only tells the time: timers need a key."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""


class KeyedCoProcessFunction(Function):
    """Processes elements of two connected keyed streams, which share the state of a key."""

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service."""

    class OnTimerContext(Context):
        """Information about the firing timer; `timestamp()` is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the time domain of the timer."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Handle a timer, with access to the state of its key; yield or return the output.

        Args:
            timestamp: The time the timer was registered for, ms since 1970.
            ctx: Its context.
        """


class BaseBroadcastProcessFunction(Function):
    """The base of the two broadcast functions."""

    class BaseContext(ABC):
        """Information about the current element of either stream."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, ms since 1970; -2^63 before the first one."""

    class ReadOnlyContext(BaseContext):
        """The context of an element of the data stream: broadcast state is read-only."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """Return a broadcast state, read-only: each subtask sees different elements, so writes would diverge."""

    class Context(BaseContext):
        """The context of a broadcast element: broadcast state is writable."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """Return a broadcast state."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Processes elements of a non-keyed stream, with state that another stream broadcasts to every subtask.

    Within an epoch broadcast elements are processed before data elements.
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the data stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream; every subtask gets it and must process it in the same way."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Processes elements of a keyed stream, with keyed state and state that another stream broadcasts to every subtask.

    Within an epoch broadcast elements are processed before data elements.
    """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of an element of the data stream: broadcast state is read-only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service."""

    class OnTimerContext(ReadOnlyContext):
        """Information about the firing timer; `timestamp()` is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the time domain of the timer."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of a broadcast element: broadcast state is writable."""

        @abstractmethod
        def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
            """Call `function(key, state)` for every key of this subtask that has a value in a keyed state."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the data stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream; every subtask gets it and must process it in the same way."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Handle a timer, with access to the state of its key; yield or return the output.

        Args:
            timestamp: The time the timer was registered for, ms since 1970.
            ctx: Its context.
        """
