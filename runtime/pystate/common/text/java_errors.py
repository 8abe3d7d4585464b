"""Extracts the cause of Java exceptions from py4j's text, whose first line names only the call."""

from __future__ import annotations

import re

_CALL = "An error occurred while calling "
_WORKER = "An exception was thrown from the Python worker"
_TRACE = "Traceback (most recent call last):"
_SENTENCE = re.compile(r"(?:[\w.$]+: )?(\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] .+)")
"""Spark's own error for users: `[CLASS_OF_ERROR] What happened.`"""
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5};?$")
_NO_CAUSE = "[STREAM_FAILED]"

_HINTS = {
    "Python worker failed to connect back": "the machine was too busy to start a Python worker within Spark's 10 s: run "
    "fewer jobs there, or set restart-strategy.type",
    "Python daemon failed to launch worker": "the machine was too busy to fork a Python worker within Spark's 60 s: run "
    "fewer jobs there, or set restart-strategy.type",
    "No suitable driver": "put the driver's jar on the session: spark.jars = PATH",
    "[DATA_SOURCE_NOT_FOUND]": "put the source's package on the session: spark.jars.packages = GROUP:NAME:VERSION",
    "java.lang.OutOfMemoryError": "give Spark's JVM more memory: spark.driver.memory",
}


def is_of_java(text: str) -> bool:
    """Whether a text is of an exception that came through py4j."""
    return text.lstrip().startswith((_CALL, _WORKER))


def java_cause(text: str) -> str:
    """Return the cause of an exception, on one line: Spark's message for users, and the innermost exception.

    What a Python worker has raised is returned in its own words.

    Args:
        text: That of py4j's exception; of any other one its first line is returned.
    """
    told = [line.strip() for line in text.splitlines() if line.strip()]
    if not is_of_java(text):
        return told[0] if told else "no reason was told"
    raised = raised_in_python(text)
    if raised is not None:
        return raised[0].strip() if raised else told[0]
    chain = [line.removeprefix(": ") for line in told if line.startswith(": ")][:1]
    chain += [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    if not chain:
        return told[0]
    sentences = [found[1] for line in chain if (found := _SENTENCE.fullmatch(line)) and not found[1].startswith(_NO_CAUSE)]
    if not _SENTENCE.fullmatch(chain[-1]):
        sentences.append(chain[-1])
    return " Cause: ".join(dict.fromkeys(_SQL_STATE.sub("", line) for line in sentences or chain[-1:]))


def raised_in_python(text: str) -> list[str] | None:
    """Return the lines of a text from the exception that ends its last Python stack trace; None if there is no trace."""
    if _TRACE not in text:
        return None
    trace = text[text.rindex(_TRACE) :].splitlines()
    ends = (place for place, line in enumerate(trace) if place and line and not line.startswith((" ", "\t")))
    return trace[next(ends, len(trace)) :]


def java_hint(text: str) -> str | None:
    """Return a hint for an exception, if its text contains a known problem."""
    return next((hint for said, hint in _HINTS.items() if said in text), None)
