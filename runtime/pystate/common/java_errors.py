"""What py4j tells of an exception of Java's: its first line names only the call, its cause stands below a page of frames."""

from __future__ import annotations

_CALL = "An error occurred while calling "
_TRACE = "Traceback (most recent call last):"


def java_cause(text: str) -> str:
    """Return the innermost cause of an exception, on one line; what a Python worker has raised in its own words.

    Args:
        text: That of py4j's exception; of any other one its first line is returned.
    """
    told = [line.strip() for line in text.splitlines() if line.strip()]
    if not told or not told[0].startswith(_CALL):
        return told[0] if told else "no reason was told"
    if _TRACE in text:
        trace = text[text.rindex(_TRACE) :].splitlines()[1:]
        return next((line.strip() for line in trace if line and not line.startswith((" ", "\t"))), told[0])
    causes = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    thrown = [line.removeprefix(": ") for line in told if line.startswith(": ")]
    return (causes[-1:] or thrown[:1] or told[:1])[0]
