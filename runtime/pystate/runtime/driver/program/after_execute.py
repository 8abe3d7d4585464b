"""What a program does after the call that is under way, told by its text: a check that ends there hasn't looked at it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

from pystate.common.user_code.user_frames import is_library

_HARMLESS = (ast.Pass, ast.Return, ast.Break, ast.Continue, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def what_follows() -> str | None:
    """Return the first line that the program comes to after the call that it is in, as "FILE, line N", or None.

    What only returns, prints or defines doesn't count.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` does, at a thousandth of the cost
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            line = _line_after(frame.f_code, frame.f_lineno)
            if line is not None:
                return f"{frame.f_code.co_filename}, line {line}"
        frame = frame.f_back
    return None


def _line_after(code: CodeType, line: int) -> int | None:
    try:
        body = ast.parse(Path(code.co_filename).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return None
    if code.co_name != "<module>":
        body = next((node.body for node in _functions(body) if _first_line(node) == code.co_firstlineno), [])
    return next((found.lineno for found in _after(body, line) if not _is_harmless(found)), None)


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _after(body: list[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """Yield the statements of a block, and of those around the line in it, that come after the last one at the line."""
    for index, statement in reversed(list(enumerate(body))):
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            for name in ("body", "orelse", "finalbody"):
                inner: list[ast.stmt] = getattr(statement, name, [])
                if inner and inner[0].lineno <= line <= (inner[-1].end_lineno or line):
                    yield from _after(inner, line)
                elif name == "body" and inner and line < inner[0].lineno:  # the call is in the head of a loop
                    yield from inner
            yield from body[index + 1 :]
            return


def _is_harmless(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        value = statement.value
        printed = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
        return printed or isinstance(value, ast.Constant)
    return isinstance(statement, _HARMLESS)
