"""Streams: `DataStream`, `KeyedStream` and sinks, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pystate.common.errors import JobGraphError
from pystate.common.execution_config import ExecutionConfig
from pystate.common.type_info import TypeInformation, Types
from pystate.common.user_code.user_frames import program_line
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import Sink
from pystate.connectors.typed_sink import SupportsElementType
from pystate.core.api import aggregation
from pystate.core.api.aggregation import FieldAggregation, Projection, check_field
from pystate.core.api.collected_results import CloseableIterator
from pystate.core.api.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    Partitioning,
    SideOutputTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
    check_same_type,
    element_type,
    without_key,
)
from pystate.core.api.window.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, WindowAssigner
from pystate.datastream.collectable_stream import CollectableStream
from pystate.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from pystate.datastream.connectors.base import SupportsPreprocessing
from pystate.datastream.execution_environment import ExecutionEnvironment
from pystate.datastream.interval_joins import IntervalJoin
from pystate.datastream.joined_streams import CoGroupedStreams, JoinedStreams
from pystate.datastream.partitionable_stream import PartitionableStream, checked_function
from pystate.datastream.queryable_state_stream import (
    DiscardingSink,
    QueryableStateFunction,
    QueryableStateStream,
    queryable_descriptor,
)
from pystate.datastream.step_settings import StepSettings
from pystate.datastream.windowed_stream import AllWindowedStream, WindowedStream
from pystate.datastream.wrong_functions import check_function, shown
from pystate.runtime.plan.named_key_column import named_key_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CloseableIterator", "DataStream", "DataStreamSink", "KeyedStream"]


class DataStream(CollectableStream, PartitionableStream["DataStream"]):
    """A stream of elements."""

    def __init__(self, environment: ExecutionEnvironment[DataStream], transformation: Transformation) -> None:
        super().__init__(environment, transformation)
        self._environment = environment

    @property
    def transformation(self) -> Transformation:
        """The step that produces this stream."""
        return self._transformation

    def followed_by(self, step: Transformation) -> DataStream:
        """Return the stream produced by a step after this one."""
        return DataStream(self._environment, step)

    def get_type(self) -> TypeInformation | None:
        """Return the type of the elements; None if untyped."""
        return self._transformation.output_type

    def get_execution_environment(self) -> ExecutionEnvironment[DataStream]:
        """Return the environment the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the environment's execution configuration."""
        return self._environment.get_config()

    def get_name(self) -> str:
        """Return the name of the step that produces this stream."""
        return self._transformation.name

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Replace each element by `func(element)`."""
        return self._then(OperatorKind.MAP, checked_function(func, MapFunction, "map"), output_type)

    def flat_map(
        self, func: Callable[[Any], Iterable[Any] | None] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Replace each element by all results that `func(element)` returns or yields."""
        return self._then(OperatorKind.FLAT_MAP, checked_function(func, FlatMapFunction, "flat_map"), output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the elements for which `func(element)` is true."""
        return self._then(OperatorKind.FILTER, checked_function(func, FilterFunction, "filter"), self.get_type())

    def project(self, *field_indexes: int) -> DataStream:
        """Select fields of tuples.

        Args:
            field_indexes: The positions of the fields, in the order of the result.

        Raises:
            JobGraphError: The elements aren't declared as tuples, or lack a field.
        """
        projection = Projection.of(field_indexes, self.get_type())
        return self._then(OperatorKind.MAP, projection, projection.output_type).name("Projection")

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `ProcessFunction` over the elements."""
        check_function(func, (ProcessFunction,), "process() on a stream without a key")
        return self._then(OperatorKind.PLAIN_PROCESS, func, output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assign timestamps to elements, and emit a watermark after the elements of an epoch.

        Raises:
            JobGraphError: It isn't a strategy.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            message = f"assign_timestamps_and_watermarks() takes a WatermarkStrategy, not {shown(watermark_strategy)}."
            raise JobGraphError(message, hint="WatermarkStrategy.for_monotonous_timestamps()")
        kind, parents = OperatorKind.ASSIGN_TIMESTAMPS, (without_key(self._transformation),)
        step = TimestampsTransformation(
            "Timestamps/Watermarks", parents, self.get_type(), kind=kind, function=watermark_strategy
        )
        return DataStream(self._environment, step)

    def key_by(
        self, key_selector: str | Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition the stream: each key is seen by one subtask only.

        Args:
            key_selector: The name of a column of the rows, or a function from element to key.
            key_type: The type of the function's result; without it, as with PICKLED_BYTE_ARRAY, each key has its own type.

        Raises:
            JobGraphError: The rows have no such column, or its type can't be a key.
        """
        key_type = element_type(key_type)
        if isinstance(key_selector, str):
            elements = element_type(self.get_type())
            if elements is not None:  # otherwise it may be known only at the start
                named_key_column(key_selector, elements, key_type, program_line())
            step = KeyByTransformation(
                "KeyBy", (self._transformation,), self.get_type(), column=key_selector, key_type=key_type
            )
        else:
            selector = checked_function(key_selector, KeySelector, "key_by")
            if isinstance(selector, KeySelector):
                selector = selector.get_key
            step = KeyByTransformation(
                "KeyBy", (self._transformation,), self.get_type(), selector=selector, key_type=key_type
            )
        return KeyedStream(self._environment, step)

    def union(self, *streams: DataStream) -> DataStream:
        """Return the union of this stream and others of the same type; a stream may occur twice.

        Elements of one stream keep their order; there is no order between streams.

        Raises:
            JobGraphError: The types differ, or a stream belongs to another environment.
        """
        for stream in streams:
            if not isinstance(stream, DataStream) or stream.get_execution_environment() is not self._environment:
                message = f"union() takes streams of the same environment, not {stream!r}."
                raise JobGraphError(message)
            if self.get_type() is not None and stream.get_type() is not None:  # others may be known only at the start
                check_same_type(self._transformation, stream.transformation)
        parents = tuple(without_key(stream.transformation) for stream in (self, *streams))
        return DataStream(self._environment, UnionTransformation("Union", parents, self.get_type()))

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream[DataStream]: ...

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams[DataStream]: ...

    def connect(
        self, ds: DataStream | BroadcastStream
    ) -> ConnectedStreams[DataStream] | BroadcastConnectedStream[DataStream]:
        """Connect this stream with another one of any type, so that one function processes both."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream) and ds.get_execution_environment() is self._environment:
            return ConnectedStreams(self, ds)
        message = f"connect() takes a stream of the same environment or a BroadcastStream, not {shown(ds)}."
        raise JobGraphError(message)

    def join(self, other_stream: DataStream) -> JoinedStreams[DataStream]:
        """Join the elements of two streams with the same key and window, in pairs (in Flink, not in PyFlink)."""
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams[DataStream]:
        """Group the elements of two streams with the same key and window (in Flink, not in PyFlink)."""
        return CoGroupedStreams(self, other_stream)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send every element to all subtasks of the next step.

        Args:
            broadcast_state_descriptor: If given, return a `BroadcastStream` for `connect`, whose function keeps these
                broadcast states.
            other_broadcast_state_descriptors: More of them.
        """
        stream = self._partitioned(Partitioning.BROADCAST)
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(stream, (broadcast_state_descriptor, *other_broadcast_state_descriptors))

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream[DataStream]:
        """Assign all elements to windows without a key, in one subtask."""
        return AllWindowedStream(self.key_by(_same_key, Types.BYTE()), window_assigner)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return the stream of a side output of this step: `yield output_tag, value`.

        Raises:
            JobGraphError: It isn't a tag, the step has no side outputs, or the tag was used with another type.
        """
        if not isinstance(output_tag, OutputTag):
            message = f"get_side_output() takes an OutputTag, not {shown(output_tag)}."
            raise JobGraphError(message)
        step = self._transformation
        producers = (OneInputTransformation, TwoInputTransformation, SourceTransformation)
        if not isinstance(step, producers) or not step.has_side_outputs:
            message = (
                f"{step.name!r} has no side outputs ({output_tag!r}): process functions and windows have, and sources with "
                "BadRecords.to_side_output()."
            )
            raise JobGraphError(message, hint="call get_side_output() on what process() or a window returns")
        for other in step.children:
            if isinstance(other, SideOutputTransformation) and other.tag == output_tag.tag_id:
                if element_type(other.output_type) != element_type(output_tag.type_info):
                    message = f"The side output {output_tag.tag_id!r} of {step.name!r} is asked for with two types."
                    raise JobGraphError(message, hint="use one OutputTag")
        side = SideOutputTransformation("SideOutput", (step,), output_tag.type_info, tag=output_tag.tag_id)
        return DataStream(self._environment, side)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every element: to stdout of an attached run, to the log of a detached one.

        Lines read `subtask> element`; the number is left out at parallelism 1.
        """
        return DataStreamSink(SinkTransformation("Print", self._ending(), kind=SinkKind.PRINT, identifier=sink_identifier))

    def add_sink(self, sink_func: SinkFunction | Sink[Any]) -> DataStreamSink:
        """Write every element to a `SinkFunction`, which runs in the slots.

        At-least-once, unless the function does better: after a failure the elements since the latest checkpoint are
        repeated.
        """
        if isinstance(sink_func, Sink):  # the sinks that PyFlink passes to add_sink aren't functions here
            return self.sink_to(sink_func)
        check_function(sink_func, (SinkFunction,), "add_sink()")
        return DataStreamSink(SinkTransformation("Sink", self._ending(), kind=SinkKind.FUNCTION, function=sink_func))

    def sink_to(self, sink: Sink[Any]) -> DataStreamSink:
        """Write every element to a sink, whose writers run in the slots.

        A sink with a committer is exactly-once: its output becomes visible when the checkpoint that contains it is complete.

        Args:
            sink: See `pystate.connectors.sink`.

        Raises:
            JobGraphError: It isn't a sink.
        """
        if isinstance(sink, SupportsElementType):
            sink = sink.for_elements_of(self.get_type())
        operator, stream = SinkOperator(sink), self
        if isinstance(sink, SupportsPreprocessing):
            stream = sink.get_transformer().apply(self)
        ending = stream._ending()  # noqa: SLF001 - a stream, too
        stateless = not operator.keeps_state
        step = SinkTransformation("Writer", ending, kind=SinkKind.FUNCTION, function=operator, stateless=stateless)
        return DataStreamSink(step)

    def cache(self) -> NoReturn:
        """Not supported: elements aren't cached for later jobs.

        Raises:
            JobGraphError: Always.
        """
        message = "cache() keeps a stream for later jobs of the program; here each job reads its sources."
        raise JobGraphError(message, hint="leave it out: within a job a stream is computed once, whoever reads it")

    def for_each_batch(self, func: Callable[[DataFrame, int], None]) -> DataStreamSink:
        """Call `func(DataFrame, epoch)` in the driver for each epoch's elements.

        The DataFrame may be used any number of times and reshaped at will: its rows are the epoch's kept output.
        At-least-once: after a failure the rows since the latest checkpoint are repeated, in other epochs.
        """
        if not callable(func):
            message = f"for_each_batch() takes a function of (DataFrame, epoch), not {shown(func)}."
            raise JobGraphError(message)
        step = SinkTransformation("ForEachBatch", self._ending(), kind=SinkKind.FOR_EACH_BATCH, function=func)
        return DataStreamSink(step)

    def _then(self, kind: OperatorKind, function: Any, output_type: TypeInformation | None) -> DataStream:
        keyed = isinstance(self._transformation, KeyByTransformation)
        step = OneInputTransformation(
            kind.value, (self._transformation,), output_type, kind=kind, function=function, keyed=keyed
        )
        return DataStream(self._environment, step)

    def _ending(self) -> tuple[Transformation]:
        """Return the input of a sink: after key_by() a step without work, which keeps a key in one subtask."""
        step = self._transformation
        if isinstance(step, KeyByTransformation):
            step = self.map(_same, self.get_type()).name("Values").transformation
        return (step,)


def _same(element: Any) -> Any:
    return element


def _same_key(_element: Any) -> int:
    return 0


class KeyedStream(DataStream):
    """A stream partitioned by key; functions on it may keep keyed state."""

    def process(self, func: KeyedProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `KeyedProcessFunction` over the elements."""
        check_function(func, (KeyedProcessFunction,), "process() on a keyed stream")
        return self._then(OperatorKind.PROCESS, func, output_type)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Emit for each element `func(last result for its key, element)`; the first element is emitted as it is."""
        return self._then(OperatorKind.REDUCE, checked_function(func, ReduceFunction, "reduce"), self.get_type())

    AccumulateType = aggregation.AccumulateType

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Emit for each element the sum of a field over the elements of its key so far.

        The other fields are those of the key's first element.

        Args:
            position_to_sum: The field of tuples, lists or rows, by position or by name; 0 for elements without fields.

        Raises:
            JobGraphError: The elements have no such field.
        """
        return self._accumulate(aggregation.AccumulateType.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Emit for each element the lowest value of a field so far; see `sum`."""
        return self._accumulate(aggregation.AccumulateType.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Emit for each element the highest value of a field so far; see `sum`."""
        return self._accumulate(aggregation.AccumulateType.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emit for each element the element with the lowest value of a field so far, the first of equal ones."""
        return self._accumulate(aggregation.AccumulateType.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emit for each element the element with the highest value of a field so far, the first of equal ones."""
        return self._accumulate(aggregation.AccumulateType.MAX_BY, position_to_max_by)

    def _accumulate(self, kind: aggregation.AccumulateType, field: int | str) -> DataStream:
        check_field(field, self.get_type(), kind.name.lower())
        return self.reduce(FieldAggregation(kind, field))

    def as_queryable_state(self, queryable_state_name: str, state_descriptor: Any = None) -> QueryableStateStream:
        """Keep the last element of each key, or a reduction of them, as queryable state of the running job.

        Args:
            queryable_state_name: The name for clients, unique in the job.
            state_descriptor: A `ReducingStateDescriptor` or `ValueStateDescriptor`; None for a value of the stream's type.

        Raises:
            JobGraphError: It is neither of them.
        """
        descriptor = queryable_descriptor(queryable_state_name, state_descriptor, self.get_type())
        kept = self.process(QueryableStateFunction(descriptor), self.get_type())
        kept.name(f"Queryable state: {queryable_state_name}")
        kept.add_sink(DiscardingSink()).name(f"Queryable state: {queryable_state_name}")
        key_by = self._transformation
        key_type = key_by.key_type if isinstance(key_by, KeyByTransformation) else None
        return QueryableStateStream(kept.transformation, descriptor, key_type)

    def window(self, window_assigner: WindowAssigner) -> WindowedStream[DataStream]:
        """Assign the elements of each key to windows."""
        return WindowedStream(self, window_assigner)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin[DataStream]:
        """Join with the elements of another stream with the same key and close timestamps (in Flink, not in PyFlink)."""
        return IntervalJoin(self, other_stream)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[DataStream]:
        """Assign the elements of each key to windows of a fixed count.

        Args:
            size: The number of elements in a window.
            slide: The number of elements between window starts; 0 for tumbling windows.
        """
        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    def key_by(
        self, key_selector: str | Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition by another key; replaces the present one."""
        return DataStream(self._environment, self._transformation.parent).key_by(key_selector, key_type)

    # -- methods that would undo the key, or that have no step to configure

    def name(self, name: str) -> NoReturn:
        """Not allowed, as in Flink."""
        message = f"A keyed stream takes no name ({name!r}): key_by() runs nothing of its own."
        raise JobGraphError(message, hint="name the step before key_by(), or the one after it")

    def shuffle(self) -> NoReturn:
        """Not allowed, as in Flink."""
        _refuse_partitioning("shuffle")

    def rebalance(self) -> NoReturn:
        """Not allowed, as in Flink."""
        _refuse_partitioning("rebalance")

    def rescale(self) -> NoReturn:
        """Not allowed, as in Flink."""
        _refuse_partitioning("rescale")

    def forward(self) -> NoReturn:
        """Not allowed, as in Flink."""
        _refuse_partitioning("forward")

    def global_(self) -> NoReturn:
        """Not allowed: Flink has no such method here."""
        _refuse_partitioning("global_")

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> NoReturn:
        """Not allowed, as in Flink."""
        _refuse_partitioning("broadcast")


def _refuse_partitioning(method: str) -> NoReturn:
    message = f"{method}() can't take the place of a key: the stream is partitioned by key_by()."
    raise JobGraphError(message, hint=f"call {method}() before key_by(), or instead of it")


class DataStreamSink(StepSettings):
    """The end of a stream."""
