"""`first.join(second)` and `first.co_group(second)`: window joins, as in Flink's Java API."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.functions import KeySelector
from pystate.core.api.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import OneInputTransformation, UnionTransformation, without_key
from pystate.core.api.window.assigners import WindowAssigner
from pystate.core.api.window.co_group import (
    CoGroupWindowFunction,
    JoinCoGroupFunction,
    MarkedKeySelector,
    mark_first,
    mark_second,
)
from pystate.core.api.window.evictors import Evictor
from pystate.core.api.window.triggers import Trigger
from pystate.datastream.connected_streams import InputStream, Key
from pystate.datastream.interval_joins import refuse_checkpointed
from pystate.datastream.windowed_stream import WindowedStream
from pystate.datastream.wrong_functions import shown

StreamT = TypeVar("StreamT", bound=InputStream[Any])


class CoGroupedStreams(Generic[StreamT]):
    """Two streams to co-group, without keys yet; generic in the resulting stream.

    Args:
        first: The first stream.
        second: The second stream.

    Raises:
        JobGraphError: They belong to different environments.
    """

    method = "co_group"

    def __init__(self, first: InputStream[StreamT], second: InputStream[StreamT]) -> None:
        environment = getattr(second, "get_execution_environment", lambda: None)()
        if environment is not first.get_execution_environment():
            message = f"{self.method}() takes a stream of the same environment, not {shown(second)}."
            raise JobGraphError(message)
        self._first = first
        self._second = second

    def where(self, key_selector: Key, key_type: TypeInformation | None = None) -> Where[StreamT]:
        """Set the key of the first stream.

        Args:
            key_selector: The name of a column, or a function from element to key.
            key_type: The type of the keys of both streams; without it each key has its own type.
        """
        return Where(self, self._first, self._second, selector_of(key_selector, "where"), key_type)

    def windowed(self, stream: WindowedStream[StreamT]) -> WithWindow[StreamT]:
        """Return the windowed streams, which take the function."""
        return WithWindow(stream)


class JoinedStreams(CoGroupedStreams[StreamT]):
    """Two streams to join, without keys yet."""

    method = "join"

    def windowed(self, stream: WindowedStream[StreamT]) -> WithWindow[StreamT]:
        """Return the windowed streams, which take the function."""
        return JoinedWithWindow(stream)


class Where(Generic[StreamT]):
    """Two streams, the first with its key; made by `where`."""

    def __init__(
        self,
        streams: CoGroupedStreams[StreamT],
        first: InputStream[StreamT],
        second: InputStream[StreamT],
        selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        self._streams = streams
        self._first = first
        self._second = second
        self._selector = selector
        self._key_type = key_type

    def equal_to(self, key_selector: Key, key_type: TypeInformation | None = None) -> EqualTo[StreamT]:
        """Set the key of the second stream.

        Args:
            key_selector: The name of a column, or a function from element to key.
            key_type: The type of the keys, as in `where`; may be left out here.

        Raises:
            JobGraphError: The two key types differ.
        """
        if key_type is not None and self._key_type is not None and key_type != self._key_type:
            message = f"The keys of both streams are of one type: where() has {self._key_type}, equal_to() {key_type}."
            raise JobGraphError(message)
        keys = MarkedKeySelector(self._selector, selector_of(key_selector, "equal_to"))
        parents = [without_key(stream.transformation) for stream in (self._first, self._second)]
        first, second = (parent.output_type for parent in parents)
        marked = None if first is None or second is None else Types.TUPLE([Types.BYTE(), first, second])
        inputs = tuple(
            OneInputTransformation(f"{self._streams.method} input", (parent,), marked, kind=OperatorKind.MAP, function=mark)
            for parent, mark in zip(parents, (mark_first, mark_second), strict=True)
        )
        united = self._first.followed_by(UnionTransformation("Union", inputs, marked))
        return EqualTo(self._streams, united, keys, self._key_type or key_type)


class EqualTo(Generic[StreamT]):
    """Two streams with their keys; made by `equal_to`."""

    def __init__(
        self, streams: CoGroupedStreams[StreamT], united: StreamT, keys: KeySelector, key_type: TypeInformation | None
    ) -> None:
        self._streams = streams
        self._united = united
        self._keys = keys
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner) -> WithWindow[StreamT]:
        """Assign the elements of each key, of both streams together, to windows."""
        stream = self._united.key_by(self._keys, self._key_type)
        return self._streams.windowed(WindowedStream(stream, window_assigner))


class WithWindow(Generic[StreamT]):
    """Two streams with keys and windows; made by `window`.

    Args:
        stream: The windowed stream of tagged elements.
    """

    def __init__(self, stream: WindowedStream[StreamT]) -> None:
        self._stream = stream

    def trigger(self, trigger: Trigger) -> WithWindow[StreamT]:
        """Set the trigger; it sees tagged elements, `(0, first, None)` and `(1, None, second)`."""
        self._stream.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> WithWindow[StreamT]:
        """Set the evictor; it sees tagged elements, as a trigger does."""
        self._stream.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> WithWindow[StreamT]:
        """Keep event-time windows for this many ms after their end."""
        self._stream.allowed_lateness(time_ms)
        return self

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> StreamT:
        """Call a `CoGroupFunction` with the elements of each window that fires.

        Raises:
            JobGraphError: It isn't one, or it takes part in checkpoints itself.
        """
        if not isinstance(function, CoGroupFunction):
            message = f"apply() after co_group() takes a CoGroupFunction, not {shown(function)}."
            raise JobGraphError(message)
        return self._apply(function, function, output_type)

    def _apply(self, function: Any, groups: CoGroupFunction, output_type: TypeInformation | None) -> StreamT:
        refuse_checkpointed(function)
        return self._stream.apply(CoGroupWindowFunction(groups), output_type)


class JoinedWithWindow(WithWindow[StreamT]):
    """Two streams with keys and windows, to be joined in pairs."""

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> StreamT:
        """Call a `JoinFunction`, a `FlatJoinFunction` or a function with each pair of each window that fires.

        Raises:
            JobGraphError: It is none of them, or it takes part in checkpoints itself.
        """
        if not isinstance(function, (JoinFunction, FlatJoinFunction)) and not _is_plain(function):
            message = f"apply() after join() takes a JoinFunction, or a function of two elements, not {shown(function)}."
            raise JobGraphError(message)
        return self._apply(function, JoinCoGroupFunction(function), output_type)


def selector_of(key: Any, method: str) -> Callable[[Any], Any]:
    """Return the key function of a column name, a function or a `KeySelector`.

    Raises:
        JobGraphError: It is none of them.
    """
    if isinstance(key, str):
        return operator.itemgetter(key)
    if isinstance(key, KeySelector):
        return key.get_key
    if _is_plain(key):
        return key  # type: ignore[no-any-return]
    message = f"{method}() takes the name of a column, a function or a KeySelector, not {key!r}."
    raise JobGraphError(message)


def _is_plain(function: Any) -> bool:
    return callable(function) and not isinstance(function, type)
