"""Finds functions that fail at their first element, or do nothing, without calling them: from signatures and text.

Only what fails, or is in vain, whatever comes is told of; what depends on elements is left to the run.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.user_code.source_lines import class_lines, function_lines
from pystate.common.user_code.used_names import uses_name
from pystate.common.user_code.user_frames import is_library
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.core.api.functions import Function
from pystate.core.api.job_graph import (
    KeyByTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
    StreamGraph,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
    element_type,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.timer_service import TimerService
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.plan.chain import function_object, has_on_timer

_Step = OneInputTransformation | TwoInputTransformation
_GIVES_MANY = (
    OperatorKind.FLAT_MAP,
    OperatorKind.PROCESS,
    OperatorKind.PLAIN_PROCESS,
    OperatorKind.CO_FLAT_MAP,
    OperatorKind.CO_PROCESS,
    OperatorKind.KEYED_CO_PROCESS,
    OperatorKind.BROADCAST_PROCESS,
    OperatorKind.KEYED_BROADCAST_PROCESS,
)
"""Kinds whose functions yield their results, or return many."""
_NUMBERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE)
_ONE_FOR_ONE = (OperatorKind.MAP, OperatorKind.FLAT_MAP, OperatorKind.FILTER)
_TIMERS = (TimerService.register_event_time_timer.__name__, TimerService.register_processing_time_timer.__name__)
_STATE_GETTERS = {f"get_{kind}state" for kind in ("", "list_", "map_", "reducing_", "aggregating_")}
_STATE_USES = {"value", "update", "add", "get", "put", "clear", "put_all", "add_all", "contains", "items", "keys", "values"}


@dataclass(frozen=True)
class WrongFunction:
    """What is wrong with a function of a program.

    Attributes:
        error: What, and what to write instead.
        place: The line, as "FILE, line N"; None if it isn't known.
        fails: Whether the job would fail; else it does nothing, or not what it seems to.
    """

    error: JobGraphError
    place: str | None
    fails: bool = True


def wrong_functions(graph: StreamGraph) -> Iterator[WrongFunction]:
    """Yield what is wrong with the functions of a program."""
    for step in graph.transformations():
        if isinstance(step, KeyByTransformation):
            yield from _wrong_key(step)
        elif isinstance(step, SinkTransformation):
            yield from _wrong_for_sink(step)
        elif isinstance(step, _Step):
            yield from _wrong_signatures(step)
            yield from _wrong_results(step)
            yield from _wrong_timers(step)
            yield from _state_in_open(step)
            yield from _no_timestamps(step)


def _wrong_key(step: KeyByTransformation) -> Iterator[WrongFunction]:
    select = getattr(step.selector, "get_key", step.selector)
    if select is None:
        return
    refusal = _not_callable_with(select, ("element",), "key_by()")
    if refusal is not None:
        yield WrongFunction(refusal, _place_of(select) or step.place)
    for node in _returned(select):
        what = {ast.Set: "set", ast.SetComp: "set", ast.Dict: "dict", ast.DictComp: "dict"}.get(type(node))
        if what is not None and step.key_type is None:
            error = JobGraphError(f"key_by() gets a {what} from its function, which is no key.", hint="return a tuple")
            yield WrongFunction(error, _place_of(select, node) or step.place)
            return


def _wrong_for_sink(step: SinkTransformation) -> Iterator[WrongFunction]:
    wanted = step.function.sink.consumed_type if isinstance(step.function, SinkOperator) else None
    given = element_type(step.parents[0].output_type)
    if wanted is None or given is None or not _misfits(given, wanted):
        return
    message = f"The sink's serialization schema takes {wanted.name}, and the elements of the stream are {given.name}."
    error = JobGraphError(
        message, hint="put a map(...) with this output_type before the sink, or give a schema of the stream's type"
    )
    yield WrongFunction(error, step.place)


def _misfits(given: TypeInformation, wanted: TypeInformation) -> bool:
    """Whether no element of a type can be one of the other."""
    if wanted.kind is TypeKind.STRING or given.kind is TypeKind.STRING:
        return (wanted.kind is TypeKind.STRING) is not (given.kind is TypeKind.STRING) and (
            {wanted.kind, given.kind} <= {TypeKind.STRING, TypeKind.ROW, TypeKind.TUPLE, *_NUMBERS}
        )
    if wanted.kind is not TypeKind.ROW:
        return False
    if given.kind in _NUMBERS:
        return True
    if given.kind not in (TypeKind.ROW, TypeKind.TUPLE):
        return False
    own, other = list(given.get_field_types()), list(wanted.get_field_types())
    if len(own) != len(other):
        return True
    if given.kind is TypeKind.ROW and given.names is not None and wanted.names is not None:
        if set(given.names) != set(wanted.names):
            return True
        own = [own[given.names.index(name)] for name in wanted.names]
    return any(TypeKind.STRING in (one.kind, two.kind) and _misfits(one, two) for one, two in zip(own, other, strict=True))


def _wrong_signatures(step: _Step) -> Iterator[WrongFunction]:
    names, function = step.kind.traits.methods, step.function
    if not names or step.kind is OperatorKind.SINK:
        return
    given = ("element", "context") if step.kind.traits.has_context else ("element",)
    if step.kind is OperatorKind.REDUCE:
        given = ("one", "other")
    calls = [(name, given) for name in names] if isinstance(function, Function) else []
    if not isinstance(function, Function) and len(names) == 1 and callable(function):
        calls = [("", given)]
    if isinstance(function, Function):
        calls.append(("open", ("runtime_context",)))
        if has_on_timer(function):
            calls.append(("on_timer", ("timestamp", "context")))
    for name, arguments in calls:
        call = getattr(function, name, None) if name else function
        if not callable(call):
            continue
        what = f"{name}() of {step.name!r}" if name else f"The function of {step.name!r}"
        refusal = _not_callable_with(call, arguments, what)
        if refusal is not None:
            yield WrongFunction(refusal, _place_of(call) or step.place)


def _not_callable_with(call: Callable[..., Any], arguments: tuple[str, ...], what: str) -> JobGraphError | None:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # of C
        return None
    try:
        signature.bind(*arguments)
    except TypeError as error:
        listed = ", ".join(arguments)
        message = f"{what} is called with ({listed}), and takes {signature}: {error}."
        return JobGraphError(message, hint=f"take {listed}")
    return None


def _wrong_results(step: _Step) -> Iterator[WrongFunction]:
    calls = _element_calls(step)
    texts = [_text(call) for call in calls]
    if step.kind in _GIVES_MANY and step.children and calls and all(text is not None for text in texts):
        timed = [step.function.on_timer] if has_on_timer(step.function) else []
        others = [_text(call) for call in timed]
        if all(text is not None and not _gives(text) for text in [*texts, *others]):
            what = "yields" if not timed else "yields, nor does on_timer()"
            message = f"The function of {step.name!r} never {what}: nothing comes out of it, and what reads it gets nothing."
            error = JobGraphError(message, hint="yield each result; a return without a value gives nothing")
            yield WrongFunction(error, _place_of(calls[0]) or step.place, fails=False)
    if step.kind is not OperatorKind.MAP or len(calls) != 1:
        return
    fields = _number_of_fields(step.output_type)
    for node in _returned(calls[0]):
        if fields is None or not isinstance(node, ast.Tuple) or any(isinstance(item, ast.Starred) for item in node.elts):
            continue
        if len(node.elts) != fields:
            message = f"The function of {step.name!r} returns {len(node.elts)} of the {fields} fields of its output_type."
            error = JobGraphError(message, hint="return all fields, or declare the right output_type")
            yield WrongFunction(error, _place_of(calls[0], node) or step.place)
            return


def _number_of_fields(type_info: TypeInformation | None) -> int | None:
    if type_info is None or type_info.kind not in (TypeKind.TUPLE, TypeKind.ROW):
        return None
    return len(type_info.get_field_types())


def _wrong_timers(step: _Step) -> Iterator[WrongFunction]:
    function = function_object(step.function)
    if not isinstance(function, Function) or not any(uses_name(function, name) for name in _TIMERS):
        return
    place = _place_of(getattr(function, "process_element", None)) or step.place
    if step.kind is OperatorKind.PLAIN_PROCESS or (step.kind is OperatorKind.CO_PROCESS and not step.keyed):
        message = f"{step.name!r} registers timers on a stream without a key; a timer belongs to a key."
        hint = "put key_by(...) before process(), and use a KeyedProcessFunction"
        yield WrongFunction(JobGraphError(message, hint=hint), place)
    elif step.kind in (OperatorKind.PROCESS, OperatorKind.KEYED_CO_PROCESS) and not has_on_timer(function):
        message = f"{step.name!r} registers timers and has no on_timer(): nothing happens when they fire."
        hint = "define on_timer(self, timestamp, ctx)"
        yield WrongFunction(JobGraphError(message, hint=hint), place, fails=False)


def _state_in_open(step: _Step) -> Iterator[WrongFunction]:
    """Yield uses of keyed state in open(), where there is no key: of fields that the same open() has set."""
    function = function_object(step.function)
    if not isinstance(function, Function) or not step.keyed:
        return
    lines = next((found for kind in type(function).__mro__ if (found := class_lines(kind)) and "open" in vars(kind)), None)
    if lines is None or is_library(lines[0]):
        return
    file, definition = lines
    for method in definition.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "open":
            continue
        states: set[str] = set()
        for statement in method.body:
            value = getattr(statement, "value", None)
            if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
                continue
            if isinstance(statement, ast.Assign) and value.func.attr in _STATE_GETTERS:
                states |= {ast.dump(_loaded(target)) for target in statement.targets}
            elif value.func.attr in _STATE_USES and ast.dump(_loaded(value.func.value)) in states:
                message = f"{step.name!r} uses keyed state in open(), where there is no key yet."
                hint = "use it in process_element() and on_timer() only: if self.state.value() is None, set the first value"
                yield WrongFunction(JobGraphError(message, hint=hint), f"{file}, line {statement.lineno}")
                return


def _loaded(node: ast.expr) -> ast.expr:
    """Return an expression as it is where it is read."""
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Load())
    return ast.Name(node.id, ast.Load()) if isinstance(node, ast.Name) else node


def _no_timestamps(step: _Step) -> Iterator[WrongFunction]:
    """Yield windows of event time over elements of a collection to which nothing gives a timestamp."""
    function = step.function
    if not isinstance(function, WindowOperation) or not function.assigner.is_event_time():
        return
    for source in {id(one): one for parent in step.parents for one in _without_timestamps(parent)}.values():
        message = f"{step.name!r} has windows of event time, and nothing gives the elements of {source.name!r} a timestamp."
        hint = (
            "put assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()"
            ".with_timestamp_assigner(...)) before key_by()"
        )
        yield WrongFunction(JobGraphError(message, hint=hint), step.place)


def _without_timestamps(step: Transformation) -> Iterator[SourceTransformation]:
    if isinstance(step, SourceTransformation):
        if step.collection is not None:
            yield step
        return
    if isinstance(step, TimestampsTransformation):
        if step.function.timestamp_assigner is not None:
            return
    elif isinstance(step, OneInputTransformation):
        if step.kind not in _ONE_FOR_ONE:
            return  # windows and timers give timestamps
    elif not isinstance(step, (KeyByTransformation, PartitionTransformation, UnionTransformation)):
        return
    for parent in step.parents:
        yield from _without_timestamps(parent)


def _element_calls(step: _Step) -> list[Callable[..., Any]]:
    names, function = step.kind.traits.methods, step.function
    if isinstance(function, Function):
        return [call for name in names if callable(call := getattr(function, name, None))]
    return [function] if len(names) == 1 and callable(function) else []


def _plain(call: Any) -> FunctionType | None:
    """Return the program's own function; None for one of a library, a decorated one, and what isn't one."""
    found = getattr(call, "__func__", call)
    if not isinstance(found, FunctionType) or hasattr(found, "__wrapped__") or is_library(found.__code__.co_filename):
        return None
    return found


def _text(call: Any) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    found = _plain(call)
    return None if found is None else function_lines(found.__code__)


def _gives(text: ast.AST) -> bool:
    """Whether a function may give something: it yields, returns what isn't None, or only raises."""
    own = list(_own_nodes(text))
    if isinstance(text, ast.Lambda):
        return True
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own):
        return True
    values = [node.value for node in own if isinstance(node, ast.Return)]
    if any(value is not None and not (isinstance(value, ast.Constant) and value.value is None) for value in values):
        return True
    return any(isinstance(node, ast.Raise) for node in own)


def _own_nodes(text: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    body = text.body if isinstance(getattr(text, "body", None), list) else [text.body]  # type: ignore[attr-defined]
    places = list(body)
    while places:
        node = places.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            places += ast.iter_child_nodes(node)


def _returned(call: Any) -> list[ast.expr]:
    text = _text(call)
    if text is None:
        return []
    if isinstance(text, ast.Lambda):
        return [text.body]
    return [node.value for node in _own_nodes(text) if isinstance(node, ast.Return) and node.value is not None]


def _place_of(call: Any, node: ast.AST | None = None) -> str | None:
    found = _plain(call)
    if found is None:
        return None
    line = getattr(node, "lineno", found.__code__.co_firstlineno)
    return f"{found.__code__.co_filename}, line {line}"
