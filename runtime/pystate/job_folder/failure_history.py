"""The last failures of a job as its status keeps them, the newest first. Pure functions of plain data."""

from __future__ import annotations

from typing import Any

from pystate.common.bounded_text import bounded_text

MAX_FAILURES = 16
"""How many failures are kept; `failure_count` counts on."""

MAX_STACK_TRACE = 8 << 10
"""Characters of a stack trace that are kept of each."""

_BEGINNING = 2 << 10


def with_failure(status: dict[str, Any], failure: dict[str, Any], timestamp: int) -> dict[str, Any]:
    """Return the changes to a status that one more failure of its attempt makes.

    Args:
        status: As in `status.json`; not changed.
        failure: What happened, as `failure_dict` gives it.
        timestamp: When, ms since 1970.
    """
    trace = bounded_trace(str(failure.get("stack_trace") or ""))
    entry = {**failure, "stack_trace": trace, "attempt": status["attempt"], "timestamp": timestamp}
    return {
        "failures": [entry, *status.get("failures", ())][:MAX_FAILURES],
        "failure_count": int(status.get("failure_count", 0)) + 1,
    }


def has_failed(status: dict[str, Any]) -> bool:
    """Return whether the attempt of a status has left word of its failure."""
    last = next(iter(status.get("failures", ())), None)
    return last is not None and bool(last["attempt"] == status["attempt"])


def bounded_trace(text: str) -> str:
    """Return a stack trace without its middle where it is too long."""
    return bounded_text(text, MAX_STACK_TRACE, _BEGINNING)
