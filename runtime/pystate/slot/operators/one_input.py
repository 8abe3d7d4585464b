"""Functions over the elements of one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pystate.api.functions import Function, ProcessFunction
from pystate.api.job_graph import OperatorKind
from pystate.common.errors import JobGraphError

Emit = Callable[[Any], None]

_METHODS = {
    OperatorKind.MAP: ("map",),
    OperatorKind.FLAT_MAP: ("flat_map",),
    OperatorKind.FILTER: ("filter",),
    OperatorKind.PROCESS: ("process_element",),
    OperatorKind.PLAIN_PROCESS: ("process_element",),
    OperatorKind.REDUCE: ("reduce",),
    OperatorKind.SINK: ("invoke",),
    OperatorKind.CO_MAP: ("map1", "map2"),
    OperatorKind.CO_FLAT_MAP: ("flat_map1", "flat_map2"),
    OperatorKind.CO_PROCESS: ("process_element1", "process_element2"),
    OperatorKind.KEYED_CO_PROCESS: ("process_element1", "process_element2"),
    OperatorKind.BROADCAST_PROCESS: ("process_element", "process_broadcast_element"),
    OperatorKind.KEYED_BROADCAST_PROCESS: ("process_element", "process_broadcast_element"),
}


def callables(kind: OperatorKind, function: Any) -> list[Callable[..., Any]]:
    """Return what is called for an element of each input: methods of a function object, or the plain function itself.

    Raises:
        JobGraphError: The function has no such methods.
    """
    names = _METHODS[kind]
    found = [getattr(function, name, None) for name in names]
    if isinstance(function, Function) and all(map(callable, found)):
        return [call for call in found if call is not None]
    if len(names) == 1 and callable(function):
        return [function]
    message = f"{type(function).__name__} is no function for {kind.value}: it lacks {' and '.join(names)}."
    raise JobGraphError(message)


class PlainContext(ProcessFunction.Context):
    """The context of `ProcessFunction.process_element`."""


def map_handler(call: Callable[..., Any], emit: Emit) -> Emit:
    """Return what emits the result of a call."""

    def run_map(element: Any) -> None:
        emit(call(element))

    return run_map


def filter_handler(call: Callable[..., Any], emit: Emit) -> Emit:
    """Return what emits the element if the call says so."""

    def run_filter(element: Any) -> None:
        if call(element):
            emit(element)

    return run_filter


def many_handler(call: Callable[..., Any], emit: Emit, *arguments: Any) -> Emit:
    """Return what emits all results of a call; `arguments` follow the element."""

    def run_many(element: Any) -> None:
        results: Iterable[Any] | None = call(element, *arguments)
        if results is not None:
            for result in results:
                emit(result)

    return run_many


def stateless_handler(kind: OperatorKind, function: Any, emit: Emit) -> Emit:
    """Return the handler of a function that needs no slot."""
    (call,) = callables(kind, function)
    if kind is OperatorKind.MAP:
        return map_handler(call, emit)
    if kind is OperatorKind.FILTER:
        return filter_handler(call, emit)
    if kind is OperatorKind.FLAT_MAP:
        return many_handler(call, emit)
    if kind is OperatorKind.PLAIN_PROCESS:
        return many_handler(call, emit, PlainContext())
    message = f"{kind.value} runs in slots only."
    raise JobGraphError(message)
