"""Keyed state that is used where there is no key."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pystate.common.errors import JobGraphError
from pystate.common.user_code.source_lines import class_lines
from pystate.common.user_code.user_frames import is_library
from pystate.core.api.functions import Function
from pystate.runtime.driver.program.function_texts import Step
from pystate.runtime.driver.program.wrong_function import WrongFunction
from pystate.runtime.plan.chain import function_object

_STATE_GETTERS = {f"get_{kind}state" for kind in ("", "list_", "map_", "reducing_", "aggregating_")}
_STATE_USES = {"value", "update", "add", "get", "put", "clear", "put_all", "add_all", "contains", "items", "keys", "values"}


def state_in_open(step: Step) -> Iterator[WrongFunction]:
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
