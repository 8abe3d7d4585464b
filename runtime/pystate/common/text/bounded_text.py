"""Bounds the size of error messages and stack traces, since exceptions of user functions may contain whole records."""

from __future__ import annotations

import re

from pystate.common.text.java_errors import java_cause

MAX_MESSAGE = 2 << 10
"""Characters of an error's message that go through Spark and the control connections; the stack trace has more of it."""

MAX_TRACE = 64 << 10
"""Characters of a stack trace that go over the control connections; what is kept of it is less."""

_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline; other ends of lines that Unicode has; what turns the direction of writing."""

MAX_SHOWN = 120
"""The maximum number of received characters that an answer repeats."""


def shown(value: object, most: int = MAX_SHOWN) -> str:
    """Return a received value for an error message: its `repr`, truncated with the length if it is long."""
    if not isinstance(value, str):
        value = repr(value)
        return value if len(value) <= most else f"{value[:most]}..."
    return repr(value) if len(value) <= most else f"{value[:most]!r}... ({len(value)} characters)"


def bounded_text(text: str, most: int = MAX_MESSAGE, beginning: int | None = None) -> str:
    """Return a text, without its middle if it is too long: beginning and end matter most.

    Args:
        text: The text.
        most: Characters of it that stay.
        beginning: How many of these are from its beginning; three quarters where None.
    """
    if len(text) <= most:
        return text
    first = most * 3 // 4 if beginning is None else beginning
    return f"{text[:first]}\n... {len(text) - most} characters are left out ...\n{text[len(text) - (most - first) :]}"


def steady_text(text: str) -> str:
    """Return a text with `?` instead of terminal control characters."""
    return _STEERS.sub("?", text)


def steady_line(text: str) -> str:
    """Return such a text on one line, with spaces instead of line breaks."""
    return steady_text(text).replace("\n", " ")


def text_of(error: BaseException) -> str:
    """Return the message of an error, even if its `__str__` fails."""
    try:
        return str(error)
    except Exception as why:
        return f"its message can't be shown, since __str__ raised {type(why).__name__}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its class if it has no message; for a Java error, the cause."""
    text = text_of(error)
    return bounded_text(java_cause(text)) if text.strip() else type(error).__name__
