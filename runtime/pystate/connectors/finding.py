"""The result of one check of `pystate doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = [
    "Finding",
    "Health",
    "fail",
    "missing",
    "ok",
    "warn",
]


class Health(Enum):
    """How bad it is."""

    OK = "ok"
    NONE = "none"  # what some jobs use isn't installed: nothing is wrong, unless one of yours does
    WARN = "warn"  # jobs run, but not as well or as safely as they might
    FAIL = "fail"  # jobs don't run


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        name: The checked thing.
        health: The severity.
        text: The result.
        hint: The next command, if there is something to do.
    """

    name: str
    health: Health
    text: str
    hint: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "status": self.health.value, "text": self.text, "hint": self.hint}


def ok(name: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(name, Health.OK, text)


def missing(name: str, text: str) -> Finding:
    """Return a finding about what isn't installed, and which only some jobs need; the text says how to install it."""
    return Finding(name, Health.NONE, text)


def warn(name: str, text: str, hint: str | None = None) -> Finding:
    """Return a finding that should be looked at."""
    return Finding(name, Health.WARN, text, hint)


def fail(name: str, text: str, hint: str | None = None) -> Finding:
    """Return a finding that keeps jobs from running."""
    return Finding(name, Health.FAIL, text, hint)
