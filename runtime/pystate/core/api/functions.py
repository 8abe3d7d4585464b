"""What user code is made of: functions and the context they run in.

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
from pystate.core.api.time_domain import TimeDomain
from pystate.core.api.timer_service import TimerService
from pystate.core.api.type_variables import IN1, IN2, KEY, OUT
from pystate.core.metrics.metric import MetricGroup

if TYPE_CHECKING:
    from pystate.core.api.keyed_batch import KeyedBatch


class KeyedStateStore(ABC):
    """Gives out keyed states. Each is scoped to the key of the element in hand.

    All methods raise StateError where the stream is not keyed, or the name is taken by a state of another kind or type.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of that name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of that name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of that name."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state of that name."""


class RuntimeContext(KeyedStateStore):
    """What a function may ask of the subtask it runs in. Handed to `Function.open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task: those of all that is chained in it, `counter, Map -> Sink: Print`."""

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
    """The root of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional hook
        """Prepare for work, before the first element.

        Called once per subtask and execution attempt; in front of the first shuffle once per Python worker of Spark's.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release what `open` acquired."""


class MapFunction(Function):
    """One element in, one element out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the element that takes the place of `value`."""


class FlatMapFunction(Function):
    """One element in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the elements that take the place of `value`."""


class FilterFunction(Function):
    """Keeps or drops elements."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep `value`."""


class ReduceFunction(Function):
    """Two elements in, one of the same type out. Must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return what takes the place of both values."""


class AggregateFunction(Function):
    """Gathers elements in an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with `value` in it; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return what the accumulator says."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return an accumulator with the elements of both."""


class SinkFunction(Function):
    """Takes the elements out of the job. Runs in the slots, next to the state.

    After a failure elements since the latest checkpoint come again: at-least-once, unless the function itself does better.
    """

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time by the clock, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event time of the sink, ms since 1970."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

    @abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Take one element."""


class CoMapFunction(Function):
    """One element of either of two streams in, one element out, or none."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the element that takes the place of one of the first stream; None where nothing does."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the element that takes the place of one of the second stream; None where nothing does."""


class CoFlatMapFunction(Function):
    """One element of either of two streams in, any number out."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return or yield what takes the place of an element of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return or yield what takes the place of an element of the second stream."""


class KeySelector(Function):
    """Names the key of an element. Must be deterministic."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of `value`."""


class Partitioner(Function):
    """Says which subtask gets an element."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the number of a subtask, from 0 on and below `num_partitions`, for a key."""


class KeyedProcessFunction(Function):
    """One element in, any number out, with the state of the element's key at hand."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time, and keeps timers."""

    class OnTimerContext(Context):
        """What is known about the timer in hand; the timestamp is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return by which time the timer fires."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element; yield or return what goes on downstream."""

    def process_batch(self, batch: KeyedBatch, ctx: KeyedProcessFunction.Context) -> Any:
        """Process many elements at once; where a function has this, `process_element` isn't called.

        It is for functions that can do with columns what they would do with each element: one read and one write of state
        per key, whole columns in between.

        Args:
            batch: The elements, their keys and their state.
            ctx: As `process_element` has it, for the key that `batch.set_current_key` has set. `timestamp()` is the latest
                time in the batch, which all results have.

        Returns:
            What goes on downstream: a `pyarrow.RecordBatch` or `Table` or a `pandas.DataFrame` with a column per field of
            the output type, or elements; None for nothing.
        """
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Do what is due at the time of a timer, with the state of its key at hand; yield or return what goes on downstream.

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
    """One element in, any number out, on a stream without a key."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time; timers need a key."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element; yield or return what goes on downstream."""


class CoProcessFunction(Function):
    """One element of either of two streams in, any number out."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time; timers need a key."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""


class KeyedCoProcessFunction(Function):
    """One element of either of two keyed streams in, any number out; both see the same state of a key."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time, and keeps timers."""

    class OnTimerContext(Context):
        """What is known about the timer in hand; the timestamp is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return by which time the timer fires."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Do what is due at the time of a timer, with the state of its key at hand; yield or return what goes on downstream.

        Args:
            timestamp: The time the timer was registered for, ms since 1970.
            ctx: Its context.
        """


class BaseBroadcastProcessFunction(Function):
    """What the two broadcast functions share."""

    class BaseContext(ABC):
        """What an element of either stream may ask."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the clock, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event time, ms since 1970. -2^63 where no watermark has come yet."""

    class ReadOnlyContext(BaseContext):
        """What an element of the data stream may ask."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a broadcast state; it can't be written from here: each subtask sees other elements."""

    class Context(BaseContext):
        """What a broadcast element may ask."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return a broadcast state."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Elements of a stream without a key, with state that another stream broadcasts to every subtask.

    Within an epoch broadcast elements are processed before data elements.
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the data stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream; every subtask gets it, and must do the same with it."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Elements of a keyed stream, with keyed state and state that another stream broadcasts to every subtask.

    Within an epoch broadcast elements are processed before data elements.
    """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What an element of the data stream may ask."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time, and keeps timers."""

    class OnTimerContext(ReadOnlyContext):
        """What is known about the timer in hand; the timestamp is the timer's."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return by which time the timer fires."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What a broadcast element may ask."""

        @abstractmethod
        def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
            """Call `function(key, state)` for every key of this subtask that has a value in a keyed state."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the data stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream; every subtask gets it, and must do the same with it."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any] | None:  # noqa: B027 - optional hook
        """Do what is due at the time of a timer, with the state of its key at hand; yield or return what goes on downstream.

        Args:
            timestamp: The time the timer was registered for, ms since 1970.
            ctx: Its context.
        """
