"""The functions of a program as text: what is called with elements, what it returns, and its lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from pystate.common.user_code.source_lines import function_lines
from pystate.common.user_code.user_frames import is_library
from pystate.core.api.functions import Function
from pystate.core.api.transformations import OneInputTransformation, TwoInputTransformation

Step = OneInputTransformation | TwoInputTransformation
"""What calls a function."""


def element_calls(step: Step) -> dict[str, Callable[..., Any]]:
    """Return what is called with elements, by the names of methods; "" for a plain function."""
    names, function = step.kind.traits.methods, step.function
    if isinstance(function, Function):
        return {name: call for name in names if callable(call := getattr(function, name, None))}
    return {"": function} if len(names) == 1 and callable(function) else {}


def program_function(call: Any) -> FunctionType | None:
    """Return the program's own function; None for one of a library, a decorated one, and what isn't one."""
    found = getattr(call, "__func__", call)
    if not isinstance(found, FunctionType) or hasattr(found, "__wrapped__") or is_library(found.__code__.co_filename):
        return None
    return found


def function_text(call: Any) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """Return the text of a function of the program; None if it isn't known."""
    found = program_function(call)
    return None if found is None else function_lines(found.__code__)


def gives(text: ast.AST) -> bool:
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


def returned(call: Any) -> list[ast.expr]:
    """Return the expressions that a function of the program returns."""
    text = function_text(call)
    if text is None:
        return []
    if isinstance(text, ast.Lambda):
        return [text.body]
    return [node.value for node in _own_nodes(text) if isinstance(node, ast.Return) and node.value is not None]


def place_of(call: Any, node: ast.AST | None = None) -> str | None:
    """Return the line of a function of the program, or of a node in it, as "FILE, line N"; None if it isn't known."""
    found = program_function(call)
    if found is None:
        return None
    line = getattr(node, "lineno", found.__code__.co_firstlineno)
    return f"{found.__code__.co_filename}, line {line}"
