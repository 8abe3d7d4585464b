"""Finds the source lines that assign an attribute or a variable, for errors about an object.

Only the author's own files are looked at, never those of libraries.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

from pystate.common.user_code.user_frames import is_library


def line_of_attribute(classes: Iterable[type], name: str) -> str | None:
    """Return where a class sets an attribute, as "FILE, line N".

    Args:
        classes: The class and those it is made of, the nearest first.
        name: The attribute.
    """
    for kind in classes:
        lines = class_lines(kind)
        if lines is None or is_library(lines[0]):
            continue
        file, definition = lines
        for node in ast.walk(definition):
            if any(_sets_attribute(target, name) for target in _targets(node)):
                return f"{file}, line {node.lineno}"  # type: ignore[attr-defined]
        for node in definition.body:
            if any(isinstance(target, ast.Name) and target.id == name for target in _targets(node)):
                return f"{file}, line {node.lineno}"
    return None


def line_of_variable(code: CodeType, name: str) -> str | None:
    """Return where an outer variable that a function reads is set: the last such line before the function."""
    tree = None if is_library(code.co_filename) else _parsed(code.co_filename)
    if tree is None:
        return None
    lines = sorted(
        node.lineno  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if any(isinstance(target, ast.Name) and target.id == name for target in _targets(node))
    )
    before = [line for line in lines if line <= code.co_firstlineno]
    if not lines:
        return None
    return f"{code.co_filename}, line {before[-1] if before else lines[0]}"


def class_lines(kind: type) -> tuple[str, ast.ClassDef] | None:
    """Return the file of a class and its definition there; None if unknown, as for a class written in C."""
    for method in vars(kind).values():
        inner = getattr(method, "__func__", method)
        if not isinstance(inner, FunctionType) or not inner.__qualname__.startswith(f"{kind.__qualname__}."):
            continue
        code = inner.__code__
        tree = _parsed(code.co_filename)
        for node in () if tree is None else ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__ and _encloses(node, code.co_firstlineno):
                return code.co_filename, node
    return None


def function_lines(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """Return the definition of a function in its file; None if it isn't known, as of one of two like lambdas in a line."""
    tree = _parsed(code.co_filename)
    kinds = ast.Lambda if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        node
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, kinds) and _first_line(node) == code.co_firstlineno and _takes(node, code)
    ]
    return found[0] if len(found) == 1 and getattr(found[0], "name", code.co_name) == code.co_name else None


def _takes(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: CodeType) -> bool:
    taken = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return taken == list(code.co_varnames[: code.co_argcount])


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else node.lineno


def _encloses(node: ast.ClassDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from ast.walk(target)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        yield node.target
    elif isinstance(node, ast.With):
        yield from (part for item in node.items if item.optional_vars is not None for part in ast.walk(item.optional_vars))


def _sets_attribute(target: ast.AST, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name and isinstance(target.ctx, ast.Store)


@functools.lru_cache(maxsize=32)
def _parsed(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
