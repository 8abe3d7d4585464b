"""Converts exceptions of user functions to failures for users."""

from __future__ import annotations

from pystate.common.errors import UserFunctionError
from pystate.common.text.bounded_text import bounded_text, steady_text, text_of
from pystate.common.text.java_errors import is_of_java, java_cause, java_hint

_NO_END = "a function can't end its job: return, raise an exception, or stop the job from outside"

_TAKEN = (
    "a function has the global names of the moment in which the program hands it over: define this one before, or import it "
    "in the function"
)


def user_failure(error: BaseException, where: str) -> UserFunctionError:
    """Return the failure for an exception of a function.

    Args:
        error: What it raised.
        where: The subtask, or the sink.
    """
    hint = java_hint(text_of(error)) if isinstance(error, Exception) else _NO_END
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        hint = _TAKEN
    return UserFunctionError(error_sentence(error), where=where, hint=hint)


def error_sentence(error: BaseException) -> str:
    """Return class and message of an exception, of bounded length; for Java and Spark errors, the cause on one line."""
    kind, text = type(error).__name__, text_of(error)
    if is_of_java(text):
        said = java_cause(text)  # which begins with the kind
    elif not text.strip():
        said = f"{kind} (no message)"
    elif type(error).__module__.startswith("pyspark."):
        said = f"{kind}: {text.strip().splitlines()[0].rstrip(';')}"  # the plan and the JVM's frames follow
    else:
        said = f"{kind}: {text}"
    return steady_text(bounded_text(said))
