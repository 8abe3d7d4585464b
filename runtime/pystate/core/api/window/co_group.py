"""Windows over two streams: elements go through one window operator, each marked with its stream.

A marked element is a tuple (stream number 0 or 1, element of the first stream or None, element of the second or None).
Triggers, evictors and assigners of such windows see these tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pystate.core.api.functions import Function, KeySelector, RuntimeContext
from pystate.core.api.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from pystate.core.api.window.window_functions import WindowFunction

FIRST, SECOND = 0, 1


def mark_first(element: Any) -> tuple[int, Any, Any]:
    """Mark an element of the first stream."""
    return FIRST, element, None


def mark_second(element: Any) -> tuple[int, Any, Any]:
    """Mark an element of the second stream."""
    return SECOND, None, element


class MarkedKeySelector(KeySelector):
    """Extracts the key of a marked element by the selector of its stream.

    Args:
        first: The selector of the first stream.
        second: That of the second.
    """

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self._first = first
        self._second = second

    def get_key(self, value: Any) -> Any:
        """Return the key."""
        number, first, second = value
        return self._first(first) if number == FIRST else self._second(second)


class CoGroupWindowFunction(WindowFunction):
    """Separates the elements of a window by stream (Flink's CoGroupWindowFunction).

    Args:
        function: Gets the elements of both streams.
    """

    def __init__(self, function: CoGroupFunction) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        self._function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Call the program's function."""
        parts: tuple[list[Any], list[Any]] = ([], [])
        for number, first, second in inputs:
            parts[number].append(first if number == FIRST else second)
        return self._function.co_group(*parts) or ()


class JoinCoGroupFunction(CoGroupFunction):
    """Calls a function with each pair of a window (Flink's JoinCoGroupFunction).

    Args:
        function: A `JoinFunction`, a `FlatJoinFunction`, or a plain function of two elements.
    """

    def __init__(self, function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any]) -> None:
        self._function = function
        self._join: Callable[[Any, Any], Any] = function.join if isinstance(function, Function) else function
        self._is_flat = isinstance(function, FlatJoinFunction)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        if isinstance(self._function, Function):
            self._function.close()

    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        """Yield the results of all pairs; none if one of the streams has no element."""
        for one in first:
            for other in second:
                result = self._join(one, other)
                if self._is_flat:
                    yield from result or ()
                else:
                    yield result
