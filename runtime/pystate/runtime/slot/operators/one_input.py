"""Handlers for functions over the elements of one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.user_code.inlined_code import Code, indented, inlined
from pystate.core.api.functions import CoProcessFunction, Function, ProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.timer_service import TimerService
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.timers.timer_services import UnkeyedTimerService

__all__ = [
    "Emit",
    "PlainContext",
    "callables",
    "filter_handler",
    "many_handler",
    "map_handler",
    "process_handler",
    "some_handler",
    "stateless_handler",
]


def callables(kind: OperatorKind, function: Any) -> list[Callable[..., Any]]:
    """Return the callables for the elements of each input: methods of a function object, or the plain function itself.

    Raises:
        JobGraphError: The function has no such methods.
    """
    names = kind.traits.methods
    found = [getattr(function, name, None) for name in names]
    if isinstance(function, Function) and all(map(callable, found)):
        return [call for call in found if call is not None]
    if len(names) == 1 and callable(function):
        return [function]
    message = f"{type(function).__name__} is no function for {kind.value}: it lacks {' and '.join(names)}."
    raise JobGraphError(message)


class PlainContext(ProcessFunction.Context, CoProcessFunction.Context):
    """The context of an element of a non-keyed stream.

    Args:
        time: The chain's time.
        watermark: Returns the event time; None for that of the chain.
    """

    def __init__(self, time: ChainTime, watermark: Callable[[], int] | None = None) -> None:
        self._time = time
        self._service = UnkeyedTimerService(time, watermark)

    def timestamp(self) -> int | None:
        """Return the timestamp of the element."""
        return self._time.timestamp

    def timer_service(self) -> TimerService:
        """Return the timer service, which only returns the time."""
        return self._service


def map_handler(call: Callable[..., Any], emit: Emit) -> Emit:
    """Return the function that emits the result of a call."""

    def write(code: Code, element: str) -> list[str]:
        result = code.name("result")
        return [f"{result} = {code.bind(call, 'map')}({element})", *code.apply(emit, result)]

    return inlined(write)


def some_handler(call: Callable[..., Any], emit: Emit) -> Emit:
    """Return the function that emits the result of a call unless it is None, like PyFlink's `map` of connected streams."""

    def run_some(element: Any) -> None:
        result = call(element)
        if result is not None:
            emit(result)

    return run_some


def filter_handler(call: Callable[..., Any], emit: Emit) -> Emit:
    """Return the function that emits the element if the call returns true."""

    def write(code: Code, element: str) -> list[str]:
        return [f"if {code.bind(call, 'filter')}({element}):", *indented(code.apply(emit, element))]

    return inlined(write)


def many_handler(call: Callable[..., Any], emit: Emit, *arguments: Any) -> Emit:
    """Return the function that emits all results of a call; `arguments` follow the element."""
    return inlined(
        lambda code, element: _each_result(code, call, element, arguments, lambda result: code.apply(emit, result))
    )


def process_handler(call: Callable[..., Any], output: Output, *arguments: Any) -> Emit:
    """Return the function that emits the results of a process function, `(OutputTag, value)` results to side outputs."""

    def write(code: Code, element: str) -> list[str]:
        def collect(result: str) -> list[str]:
            tags, collect_result = code.bind(OutputTag, "OutputTag"), code.bind(output.collect, "collect")
            tagged = [f"if {tags}.any_made:", f"    {collect_result}({result})"]  # as soon as the function has created one
            return [*tagged, "else:", *indented(code.apply(output.emit, result))]

        return _each_result(code, call, element, arguments, collect)

    return inlined(write)


def _each_result(
    code: Code, call: Callable[..., Any], element: str, arguments: Sequence[Any], emit: Callable[[str], list[str]]
) -> list[str]:
    """Return the lines of code that apply `emit` to each result of a call."""
    results, result = code.name("results"), code.name("result")
    given = ", ".join([element, *(code.bind(argument, "argument") for argument in arguments)])
    return [
        f"{results} = {code.bind(call, 'function')}({given})",
        f"if {results} is not None:",
        f"    for {result} in {results}:",
        *indented(indented(emit(result))),
    ]


def stateless_handler(
    kind: OperatorKind, function: Any, output: Output, time: ChainTime, watermark: Callable[[], int] | None = None
) -> Emit:
    """Return the handler of a function that needs no slot; downstream of an assigner `watermark` returns its event time."""
    (call,) = callables(kind, function)
    emit = output.emit
    if kind is OperatorKind.MAP:
        return map_handler(call, emit)
    if kind is OperatorKind.FILTER:
        return filter_handler(call, emit)
    if kind is OperatorKind.FLAT_MAP:
        return many_handler(call, emit)
    if kind is OperatorKind.PLAIN_PROCESS:
        return process_handler(call, output, PlainContext(time, watermark))
    message = f"{kind.value} runs in slots only."
    raise JobGraphError(message)
