"""Parses parameters without pydantic: strings and None are passed through, numbers are parsed here.

typer validates each value with pydantic, whose import takes longer than all of `pystate list`, and whose messages are
    written for programmers. It is skipped where there is nothing to validate: typer does so for flags; strings, defaults and
    numbers are handled here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import typer

_UNCHECKED = object()


def let_pass_unchecked(command: Any) -> None:
    """Make a typer command and its subcommands skip validation that can't fail.

    If a version of typer doesn't expose the types of parameters, nothing is changed.

    Args:
        command: The result of `typer.main.get_command`.
    """
    for below in getattr(command, "commands", {}).values():
        let_pass_unchecked(below)
    parameters_of = command.get_params

    def get_params(context: Any) -> list[Any]:
        parameters: list[Any] = parameters_of(context)  # also that of the help, which is made when it is asked for
        for parameter in parameters:
            if "process_value" not in vars(parameter):
                parameter.process_value = _processed(parameter, parameter.process_value)
        return parameters

    command.get_params = get_params


def _processed(parameter: Any, check: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def process_value(context: Any, value: Any) -> Any:
        passed = _passed(parameter, value, context)
        if passed is _UNCHECKED:
            return check(context, value)
        return passed if parameter.callback is None else parameter.callback(context, parameter, passed)

    return process_value


def _passed(parameter: Any, value: Any, context: Any) -> Any:
    """Return the validated value, or `_UNCHECKED` if validation is needed.

    Raises:
        typer.BadParameter: The value isn't a number, or is out of the parameter's range.
    """
    wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if wanted is None or parameter.required and parameter.value_is_missing(value):
        return _UNCHECKED
    if parameter.multiple or parameter.nargs != 1:
        if value is None:
            return ()
        is_text = wanted == list[str] and isinstance(value, (list, tuple)) and all(type(each) is str for each in value)
        return list(value) if is_text else _UNCHECKED
    if value is None or value is parameter.default or (wanted is str and type(value) is str):
        return value
    if wanted in (int, float) and type(value) is str:
        return _number(wanted, value, parameter, context)
    return _UNCHECKED


def _number(wanted: type[int] | type[float], text: str, parameter: Any, context: Any) -> int | float:
    """Parse a number, and check the parameter's range.

    Raises:
        typer.BadParameter: It isn't a number, or is out of range.
    """
    try:
        number = wanted(text)
    except ValueError:
        number = math.nan
    info = parameter.type_descriptor.parameter_info
    if math.isnan(number):
        message = f"{text!r} is not a {'whole number' if wanted is int else 'number'}."
    elif info.min is not None and number < info.min:
        message = f"{text} is less than {info.min}."
    elif info.max is not None and number > info.max:
        message = f"{text} is more than {info.max}."
    else:
        return number
    raise typer.BadParameter(message, ctx=context, param=parameter)
