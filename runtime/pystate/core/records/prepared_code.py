"""Code generation for elements that leave a task: preparation for their columns, and measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pystate.common.user_code.inlined_code import Code
from pystate.core.records.sizes import Measure

WritePrepare = Callable[[Code, str], tuple[list[str], str]]
"""Returns lines that prepare an element, and the name that the result has in them."""

WriteSize = Callable[[Code, str], str]
"""Returns the expression that measures what was prepared; it raises TypeError where that isn't of the type."""

_MOST_PARTS = 16
"""The maximum number of fields of variable size that are measured inline; more are measured by a call."""


def write_call(function: Callable[[Any], Any]) -> WritePrepare:
    """Return code that prepares by a call."""

    def write(code: Code, element: str) -> tuple[list[str], str]:
        prepared = code.name("prepared")
        return [f"{prepared} = {code.bind(function, 'prepare')}({element})"], prepared

    return write


def write_size(measure: Measure) -> WriteSize:
    """Return code that measures by a call."""
    if measure is len:
        return lambda _code, value: f"len({value})"
    return lambda code, value: f"{code.bind(measure, 'size')}({value})"


def write_fields_size(parts: Mapping[int, Measure], measure: Measure) -> WriteSize:
    """Return code that measures tuples.

    Args:
        parts: By the places of the fields that have sizes of their own.
        measure: Does the same by a call.
    """
    if len(parts) > _MOST_PARTS:
        return write_size(measure)
    sizes = {place: write_size(part) for place, part in parts.items()}

    def write(code: Code, value: str) -> str:
        part = code.name("part")
        return " + ".join(
            f"(0 if ({part} := {value}[{place}]) is None else {size(code, part)})" for place, size in sizes.items()
        )

    return write


def write_fields(names: tuple[str, ...], module: Any, otherwise: Callable[[Any], Any]) -> WritePrepare:
    """Return code that converts elements with fields to tuples.

    Args:
        names: Of the fields.
        module: Has `_plain_row`, the class of rows whose kind need not be checked.
        otherwise: Does the same for any element by a call; not needed for tuples and such rows.
    """
    count = len(names)

    def write(code: Code, element: str) -> tuple[list[str], str]:
        kind, fields, values, prepared = (code.name(about) for about in ("kind", "fields", "values", "prepared"))
        return [
            f"{kind} = type({element})",
            f"if {kind} is tuple and len({element}) == {count}:",  # those that functions give most often come first
            f"    {prepared} = {element}",
            "elif (",
            f"    {kind} is {code.bind(module, 'codec')}._plain_row",
            f"    and (({fields} := {element}._fields) is None or {fields} == {code.bind(names, 'names')})",
            f"    and len({values} := {element}._values) == {count}",
            "):",
            f"    {prepared} = tuple({values})",
            "else:",
            f"    {prepared} = {code.bind(otherwise, 'prepare')}({element})",
        ], prepared

    return write
