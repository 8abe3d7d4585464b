"""Two streams with one function: `connect` for keyed and non-keyed streams, and for broadcast state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import MapStateDescriptor
from pystate.core.api.transformations import KeyByTransformation, Transformation, TwoInputTransformation
from pystate.datastream.wrong_functions import check_function

Key = str | Callable[[Any], Any] | KeySelector
"""What `key_by` takes: the name of a column, or a function from element to key."""

StreamT = TypeVar("StreamT")
StreamT_co = TypeVar("StreamT_co", covariant=True)


class InputStream(Protocol[StreamT_co]):
    """The interface of streams that can be connected; `DataStream`, which imports this module, implements it."""

    @property
    def transformation(self) -> Transformation:
        """The step that produces the stream."""

    def get_execution_environment(self) -> object:
        """Return the environment the stream belongs to."""

    def key_by(self, key_selector: Key, key_type: TypeInformation | None = None) -> InputStream[StreamT_co]:
        """Return the stream partitioned by key."""

    def followed_by(self, step: Transformation) -> StreamT_co:
        """Return the stream produced by a step after this one."""


class ConnectedStreams(Generic[StreamT]):
    """Two streams of any types that share one function; generic in the resulting stream.

    Args:
        stream1: The first stream, keyed or not.
        stream2: The second stream, keyed if and only if the first is.
    """

    def __init__(self, stream1: InputStream[StreamT], stream2: InputStream[Any]) -> None:
        self._first = stream1
        self._second = stream2

    def key_by(
        self,
        key_selector1: Key,
        key_selector2: Key,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[StreamT]:
        """Partition both streams by key, so that elements of the same key meet in one subtask and see the same state.

        Args:
            key_selector1: The key of the first stream: the name of a column, or a function from element to key.
            key_selector2: The key of the second stream.
            key_type: The type of the functions' results; without it each key is written with its own type.
        """
        return ConnectedStreams(self._first.key_by(key_selector1, key_type), self._second.key_by(key_selector2, key_type))

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> StreamT:
        """Replace each element of either stream by the result of `func`."""
        return self._then(OperatorKind.CO_MAP, func, CoMapFunction, "map() on connected streams", output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> StreamT:
        """Replace each element of either stream by all results that `func` returns or yields."""
        return self._then(OperatorKind.CO_FLAT_MAP, func, CoFlatMapFunction, "flat_map() on connected streams", output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> StreamT:
        """Run a `KeyedCoProcessFunction` over two keyed streams, or a `CoProcessFunction` over two non-keyed ones.

        Raises:
            JobGraphError: The function doesn't fit the streams.
        """
        if self._keyed():
            what = "process() on two keyed streams"
            return self._then(OperatorKind.KEYED_CO_PROCESS, func, KeyedCoProcessFunction, what, output_type)
        what = "process() on two streams without a key"
        return self._then(OperatorKind.CO_PROCESS, func, CoProcessFunction, what, output_type)

    def _keyed(self) -> bool:
        first, second = _is_keyed(self._first), _is_keyed(self._second)
        if first != second:
            message = "Of two connected streams one has a key and the other has none."
            hint = (
                "give both a key, with key_by(k1, k2) after connect(), or neither; or connect(rules.broadcast(DESCRIPTOR))"
            )
            raise JobGraphError(message, hint=hint)
        return first

    def _then(
        self, kind: OperatorKind, function: Any, expected: type[Any], what: str, output_type: TypeInformation | None
    ) -> StreamT:
        keyed = self._keyed()
        return _joined(self._first, self._second, kind, function, expected, what, output_type, keyed=keyed)


class BroadcastStream:
    """A stream whose elements go to every subtask, and the broadcast states of its function.

    Args:
        input_stream: The stream, broadcast.
        broadcast_state_descriptors: The broadcast states.
    """

    def __init__(self, input_stream: InputStream[Any], broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        descriptors = tuple(broadcast_state_descriptors)
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                message = f"broadcast() takes MapStateDescriptors, not {descriptor!r}."
                raise JobGraphError(message)
        names = [descriptor.name for descriptor in descriptors]
        for name in names:
            if names.count(name) > 1:
                message = f"broadcast() was given two states of the name {name!r}."
                raise JobGraphError(message, hint="give each broadcast state a name of its own")
        self.stream = input_stream
        self.descriptors = descriptors


class BroadcastConnectedStream(Generic[StreamT]):
    """A stream, keyed or not, connected with a broadcast one; generic in the resulting stream.

    Args:
        non_broadcast_stream: The data stream.
        broadcast_stream: The broadcast stream.
        broadcast_state_descriptors: The broadcast states; None for those of the broadcast stream.
    """

    def __init__(
        self,
        non_broadcast_stream: InputStream[StreamT],
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor] | None = None,
    ) -> None:
        if non_broadcast_stream.get_execution_environment() is not broadcast_stream.stream.get_execution_environment():
            message = "connect() takes a broadcast stream of the same environment."
            raise JobGraphError(message)
        if broadcast_state_descriptors is not None:
            broadcast_stream = BroadcastStream(broadcast_stream.stream, broadcast_state_descriptors)
        self._stream = non_broadcast_stream
        self._broadcast = broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> StreamT:
        """Run a `KeyedBroadcastProcessFunction` over a keyed stream, or a `BroadcastProcessFunction` over a non-keyed one.

        Within an epoch, broadcast elements are processed before data elements.

        Raises:
            JobGraphError: The function doesn't fit the stream.
        """
        keyed = _is_keyed(self._stream)
        kind = OperatorKind.KEYED_BROADCAST_PROCESS if keyed else OperatorKind.BROADCAST_PROCESS
        expected = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        what = f"process() with broadcast state on a stream with{'' if keyed else 'out'} a key"
        return _joined(
            self._stream,
            self._broadcast.stream,
            kind,
            func,
            expected,
            what,
            output_type,
            keyed=keyed,
            descriptors=self._broadcast.descriptors,
        )


def _is_keyed(stream: InputStream[Any]) -> bool:
    return isinstance(stream.transformation, KeyByTransformation)


def _joined(
    first: InputStream[StreamT],
    second: InputStream[Any],
    kind: OperatorKind,
    function: Any,
    expected: type[Any],
    what: str,
    output_type: TypeInformation | None,
    *,
    keyed: bool,
    descriptors: tuple[MapStateDescriptor, ...] = (),
) -> StreamT:
    check_function(function, (expected,), what)
    step = TwoInputTransformation(
        kind.value,
        (first.transformation, second.transformation),
        output_type,
        kind=kind,
        function=function,
        keyed=keyed,
        descriptors=descriptors,
    )
    return first.followed_by(step)
