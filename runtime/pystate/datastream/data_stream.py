"""Streams: what a program chains its steps on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pystate.api.functions import FilterFunction, FlatMapFunction, Function, KeyedProcessFunction, KeySelector, MapFunction
from pystate.api.job_graph import (
    KeyByTransformation,
    OneInputTransformation,
    OperatorKind,
    SinkKind,
    SinkTransformation,
    Transformation,
)
from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pystate.datastream.environment import StreamExecutionEnvironment

SelfStream = TypeVar("SelfStream", bound="DataStream")


def _checked(function: Any, expected: type[Function], what: str) -> Any:
    if isinstance(function, expected) or (callable(function) and not isinstance(function, (type, Function))):
        return function
    message = f"{what}() takes a function or a {expected.__name__}, not {function!r}."
    raise JobGraphError(message)


class DataStream:
    """A stream of elements."""

    def __init__(self, environment: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._environment = environment
        self._transformation = transformation

    def get_type(self) -> TypeInformation | None:
        """Return the type of the elements, None where they are untyped."""
        return self._transformation.output_type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment the stream belongs to."""
        return self._environment

    def get_name(self) -> str:
        """Return the name of the step that makes this stream."""
        return self._transformation.name

    def name(self: SelfStream, name: str) -> SelfStream:
        """Name the step; only people read it."""
        self._transformation.name = name
        return self

    def uid(self: SelfStream, uid: str) -> SelfStream:
        """Give the step's state its identity across versions of the job."""
        if not uid or not isinstance(uid, str):
            message = f"A uid is a text that is not empty, not {uid!r}."
            raise JobGraphError(message, where=self._transformation.name)
        self._transformation.uid = uid
        return self

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Put `func(element)` in the place of each element."""
        return self._then(OperatorKind.MAP, _checked(func, MapFunction, "map"), output_type)

    def flat_map(
        self, func: Callable[[Any], Iterable[Any] | None] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Put all that `func(element)` returns or yields in the place of each element."""
        return self._then(OperatorKind.FLAT_MAP, _checked(func, FlatMapFunction, "flat_map"), output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the elements for which `func(element)` is true."""
        return self._then(OperatorKind.FILTER, _checked(func, FilterFunction, "filter"), self.get_type())

    def key_by(
        self, key_selector: str | Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition the stream: each key is seen by one subtask only.

        Args:
            key_selector: The name of a column of the rows, or a function from element to key.
            key_type: The type of what a function returns; without it each key says its own type.
        """
        if isinstance(key_selector, str):
            step = KeyByTransformation(
                "KeyBy", (self._transformation,), self.get_type(), column=key_selector, key_type=key_type
            )
        else:
            selector = _checked(key_selector, KeySelector, "key_by")
            if isinstance(selector, KeySelector):
                selector = selector.get_key
            step = KeyByTransformation(
                "KeyBy", (self._transformation,), self.get_type(), selector=selector, key_type=key_type
            )
        return KeyedStream(self._environment, step)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every element: to stdout of an attached run, to the log of a detached one.

        Lines read `subtask> element`; the number is left out at parallelism 1.
        """
        return self._end(
            SinkTransformation("Print", (self._transformation,), kind=SinkKind.PRINT, identifier=sink_identifier)
        )

    def for_each_batch(self, func: Callable[[DataFrame, int], None]) -> DataStreamSink:
        """Call `func(DataFrame, epoch)` in the driver for each epoch's elements.

        The DataFrame may be used any number of times and reshaped at will: its rows are the epoch's kept output.
        At-least-once: after a failure the rows since the latest checkpoint come again, in other epochs.
        """
        if not callable(func):
            message = f"for_each_batch() takes a function of (DataFrame, epoch), not {func!r}."
            raise JobGraphError(message)
        step = SinkTransformation("ForEachBatch", (self._transformation,), kind=SinkKind.FOR_EACH_BATCH, function=func)
        return self._end(step)

    def _then(self, kind: OperatorKind, function: Any, output_type: TypeInformation | None) -> DataStream:
        keyed = isinstance(self._transformation, KeyByTransformation)
        step = OneInputTransformation(
            kind.value, (self._transformation,), output_type, kind=kind, function=function, keyed=keyed
        )
        return DataStream(self._environment, step)

    def _end(self, step: SinkTransformation) -> DataStreamSink:
        if isinstance(self._transformation, KeyByTransformation):
            message = f"{step.name} stands directly behind key_by(); put process() or map() between them."
            raise JobGraphError(message)
        return DataStreamSink(step)


class KeyedStream(DataStream):
    """A stream partitioned by key; functions on it may keep keyed state."""

    def process(self, func: KeyedProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `KeyedProcessFunction` over the elements."""
        if not isinstance(func, KeyedProcessFunction):
            message = f"process() on a keyed stream takes a KeyedProcessFunction, not {func!r}."
            raise JobGraphError(message)
        return self._then(OperatorKind.PROCESS, func, output_type)

    def key_by(
        self, key_selector: str | Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition by another key; replaces the present one."""
        return DataStream(self._environment, self._transformation.parent).key_by(key_selector, key_type)

    def name(self, name: str) -> KeyedStream:
        """Name the partitioning; only people read it."""
        return super().name(name)

    def uid(self, uid: str) -> KeyedStream:
        """Refused: a partitioning has no state.

        Raises:
            JobGraphError: Always.
        """
        message = f"key_by() has no state of its own, so it takes no uid ({uid!r})."
        raise JobGraphError(message, hint="set the uid behind process(), map() or another step")


class DataStreamSink:
    """The end of a stream."""

    def __init__(self, transformation: SinkTransformation) -> None:
        self._transformation = transformation

    def name(self, name: str) -> DataStreamSink:
        """Name the sink; only people read it."""
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink its identity across versions of the job."""
        self._transformation.uid = uid
        return self
