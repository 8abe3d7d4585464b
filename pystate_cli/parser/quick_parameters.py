"""Parameters without pydantic: text and None are taken as they are.

typer checks each value with pydantic, whose import takes longer than all that `pystate list` does. Where there is nothing
to check it isn't asked: for flags it does so itself, for texts and for defaults it is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_UNCHECKED = object()


def let_pass_unchecked(command: Any) -> None:
    """Make a command of typer, with those below it, leave out checks that can't fail.

    With a typer that doesn't say what a parameter's values are, nothing is changed.

    Args:
        command: What `typer.main.get_command` gives.
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
        passed = _passed(parameter, value)
        if passed is _UNCHECKED:
            return check(context, value)
        return passed if parameter.callback is None else parameter.callback(context, parameter, passed)

    return process_value


def _passed(parameter: Any, value: Any) -> Any:
    """Return what the check would return, and `_UNCHECKED` where it is needed."""
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
    return _UNCHECKED
