"""What went wrong in an epoch, from what Spark says of it."""

from __future__ import annotations

from pystate.common.bounded_text import bounded_text, first_line, text_of
from pystate.common.errors import (
    JobExecutionError,
    PystateError,
    RecordError,
    StateError,
    UserFunctionError,
    error_from_dict,
)
from pystate.common.java_errors import java_cause, java_hint


def stage_failure(error: Exception) -> PystateError:
    """Return what went wrong in an epoch's Spark job: a Python worker's own last line where there is one."""
    text = text_of(error)
    marker = "Traceback (most recent call last):"
    if marker not in text:
        return JobExecutionError(f"The epoch's Spark job failed: {bounded_text(java_cause(text))}", hint=java_hint(text))
    trace = text[text.rindex(marker) :].splitlines()
    for index, line in enumerate(trace[1:], 2):
        if line and not line.startswith((" ", "\t")):
            return _of_wrong_data(line, trace[index:]) or UserFunctionError(line.strip())
    return UserFunctionError(first_line(error))


def _of_wrong_data(last: str, following: list[str]) -> PystateError | None:
    """Return the error of a Python worker in which data doesn't fit its type, as it was raised; None for any other."""
    name, _, message = last.strip().partition(": ")
    module, _, said = name.rpartition(".")
    if module != PystateError.__module__ or said not in (RecordError.__name__, StateError.__name__):
        return None
    told = [line.strip().partition(": ") for line in following[:2]]
    place = {name: text for name, _, text in told if name in ("at", "try")}
    return error_from_dict({"class": said, "message": message, "where": place.get("at"), "hint": place.get("try")})
