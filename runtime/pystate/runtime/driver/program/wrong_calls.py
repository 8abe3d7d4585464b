"""Functions that fail when they are called, or give nothing, by their signatures and what they return."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.functions import Function
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import KeyByTransformation
from pystate.runtime.driver.program.function_texts import Step, element_calls, function_text, gives, place_of, returned
from pystate.runtime.driver.program.wrong_function import WrongFunction
from pystate.runtime.plan.chain import has_on_timer

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


def wrong_key(step: KeyByTransformation) -> Iterator[WrongFunction]:
    """Yield what is wrong with the function of a key_by()."""
    select = getattr(step.selector, "get_key", step.selector)
    if select is None:
        return
    refusal = _not_callable_with(select, ("element",), "key_by()")
    if refusal is not None:
        yield WrongFunction(refusal, place_of(select) or step.place)
    for node in returned(select):
        what = {ast.Set: "set", ast.SetComp: "set", ast.Dict: "dict", ast.DictComp: "dict"}.get(type(node))
        if what is not None and step.key_type is None:
            error = JobGraphError(f"key_by() gets a {what} from its function, which is no key.", hint="return a tuple")
            yield WrongFunction(error, place_of(select, node) or step.place)
            return


def wrong_signatures(step: Step) -> Iterator[WrongFunction]:
    """Yield methods that don't take what they are called with."""
    function = step.function
    if not step.kind.traits.methods or step.kind is OperatorKind.SINK:
        return
    given = ("element", "context") if step.kind.traits.has_context else ("element",)
    if step.kind is OperatorKind.REDUCE:
        given = ("one", "other")
    calls = [(name, call, given) for name, call in element_calls(step).items()]
    if isinstance(function, Function):
        calls.append(("open", function.open, ("runtime_context",)))
        if has_on_timer(function):
            timed: Any = function
            calls.append(("on_timer", timed.on_timer, ("timestamp", "context")))
    for name, call, arguments in calls:
        what = f"{name}() of {step.name!r}" if name else f"The function of {step.name!r}"
        refusal = _not_callable_with(call, arguments, what)
        if refusal is not None:
            yield WrongFunction(refusal, place_of(call) or step.place)


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


def wrong_results(step: Step) -> Iterator[WrongFunction]:
    """Yield functions that give nothing, or other fields than they declare."""
    calls = list(element_calls(step).values())
    texts = [function_text(call) for call in calls]
    if step.kind in _GIVES_MANY and step.children and calls and all(text is not None for text in texts):
        timed = [step.function.on_timer] if has_on_timer(step.function) else []
        others = [function_text(call) for call in timed]
        if all(text is not None and not gives(text) for text in [*texts, *others]):
            what = "yields" if not timed else "yields, nor does on_timer()"
            message = f"The function of {step.name!r} never {what}: nothing comes out of it, and what reads it gets nothing."
            error = JobGraphError(message, hint="yield each result; a return without a value gives nothing")
            yield WrongFunction(error, place_of(calls[0]) or step.place, fails=False)
    if step.kind is not OperatorKind.MAP or len(calls) != 1:
        return
    fields = _number_of_fields(step.output_type)
    for node in returned(calls[0]):
        if fields is None or not isinstance(node, ast.Tuple) or any(isinstance(item, ast.Starred) for item in node.elts):
            continue
        if len(node.elts) != fields:
            message = f"The function of {step.name!r} returns {len(node.elts)} of the {fields} fields of its output_type."
            error = JobGraphError(message, hint="return all fields, or declare the right output_type")
            yield WrongFunction(error, place_of(calls[0], node) or step.place)
            return


def _number_of_fields(type_info: TypeInformation | None) -> int | None:
    if type_info is None or type_info.kind not in (TypeKind.TUPLE, TypeKind.ROW):
        return None
    return len(type_info.get_field_types())
