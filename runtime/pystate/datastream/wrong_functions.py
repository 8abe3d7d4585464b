"""Error messages for a function of the wrong kind."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.sink import Sink
from pystate.connectors.source import Source, SourceFunction
from pystate.core.api.async_function import AsyncFunction
from pystate.core.api.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from pystate.core.api.window.window_functions import ProcessAllWindowFunction, ProcessWindowFunction

_METHODS: tuple[tuple[type, str], ...] = (
    (KeyedProcessFunction, "stream.key_by(...).process(...)"),
    (KeyedCoProcessFunction, "stream.connect(other).key_by(...).process(...)"),
    (KeyedBroadcastProcessFunction, "stream.key_by(...).connect(other.broadcast(descriptor)).process(...)"),
    (BroadcastProcessFunction, "stream.connect(other.broadcast(descriptor)).process(...)"),
    (CoProcessFunction, "stream.connect(other).process(...)"),
    (ProcessAllWindowFunction, "stream.window_all(...).process(...)"),
    (ProcessWindowFunction, "stream.key_by(...).window(...).process(...)"),
    (ProcessFunction, "stream.process(...), without a key_by() before it"),
    (CoMapFunction, "stream.connect(other).map(...)"),
    (CoFlatMapFunction, "stream.connect(other).flat_map(...)"),
    (AggregateFunction, "stream.key_by(...).window(...).aggregate(...)"),
    (AsyncFunction, "AsyncDataStream.unordered_wait(stream, ...)"),
    (MapFunction, "stream.map(...)"),
    (FlatMapFunction, "stream.flat_map(...)"),
    (FilterFunction, "stream.filter(...)"),
    (ReduceFunction, "stream.key_by(...).reduce(...)"),
    (KeySelector, "stream.key_by(...)"),
    (SinkFunction, "stream.add_sink(...)"),
    (Sink, "stream.sink_to(...)"),
    (SourceFunction, "env.add_source(...)"),
    (Source, "env.from_source(...)"),
)


def shown(value: Any) -> str:
    """Return a value's text for errors; an object without its own repr is shown by its class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (FunctionType, BuiltinFunctionType, MethodType)):
        return "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__name__}()"
    base = next((base.__name__ for base, _ in _METHODS if isinstance(value, base)), None)
    if base is None and " object at 0x" not in repr(value):
        return repr(value)
    name = type(value).__name__
    return f"a {name}" if base in (None, name) else f"{name}, which is a {base}"


def way_of(value: Any) -> str | None:
    """Return the method that accepts the given value; None if unknown."""
    if isinstance(value, type):
        return f"give an object of it: {value.__name__}(...)"
    method = next((method for base, method in _METHODS if isinstance(value, base)), None)
    return None if method is None else f"write {method}"


def check_function(value: Any, expected: tuple[type, ...], method: str) -> None:
    """Check that a value is one of the functions that a method accepts.

    Args:
        value: The given value.
        expected: The accepted classes.
        method: The name of the method, for errors.

    Raises:
        JobGraphError: Names the value, and the method that accepts it.
    """
    if isinstance(value, expected):
        return
    names = " or a ".join(kind.__name__ for kind in expected)
    message = f"{method} takes a {names}, not {shown(value)}."
    hint = way_of(value)
    if hint is None and callable(value):
        hint = f"write a class that extends {expected[0].__name__}; plain functions are for map(), flat_map() and filter()"
    raise JobGraphError(message, hint=hint)
