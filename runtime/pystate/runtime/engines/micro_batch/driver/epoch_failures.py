"""Finds the cause of an epoch's failure in the errors that Spark reports."""

from __future__ import annotations

from pystate.common.errors import (
    JobExecutionError,
    PystateError,
    RecordError,
    StateError,
    UserFunctionError,
    error_from_dict,
)
from pystate.common.text.bounded_text import bounded_text, first_line, text_of
from pystate.common.text.java_errors import java_cause, java_hint, raised_in_python
from pystate.runtime.plan.job_plan import JobPlan


def stage_failure(error: Exception, plan: JobPlan | None = None) -> PystateError:
    """Return the cause of a failed Spark job: the last line of the Python worker's error if there is one.

    Args:
        error: The error that Spark raised.
        plan: The job's plan, to name its sources if Spark reports a data error: everything else in an epoch is Python.
    """
    text = text_of(error)
    raised = raised_in_python(text)
    if raised is None:
        cause = java_cause(text)
        where = None if plan is None or not cause.startswith("[") else _sources_of(plan)
        return JobExecutionError(f"The epoch's Spark job failed: {bounded_text(cause)}", where=where, hint=java_hint(text))
    if not raised:
        return UserFunctionError(first_line(error))
    return _of_wrong_data(raised[0], raised[1:]) or UserFunctionError(raised[0].strip())


def _sources_of(plan: JobPlan) -> str:
    names = [f"{source.step.name} (uid {source.uid})" for source in plan.sources]
    return f"source {names[0]}" if len(names) == 1 else f"one of the sources {', '.join(names)}"


def _of_wrong_data(last: str, following: list[str]) -> PystateError | None:
    """Return the error of a Python worker whose data doesn't fit its type, as it was raised; None for other errors."""
    name, _, message = last.strip().partition(": ")
    module, _, class_name = name.rpartition(".")
    if module != PystateError.__module__ or class_name not in (RecordError.__name__, StateError.__name__):
        return None
    parts = [line.strip().partition(": ") for line in following[:2]]
    place = {name: text for name, _, text in parts if name in ("at", "try")}
    return error_from_dict({"class": class_name, "message": message, "where": place.get("at"), "hint": place.get("try")})
