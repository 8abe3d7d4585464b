"""Detects deterministic failures: the same type at the same line of user code, whatever the messages are.

A message may contain a time or an address, so that no two are equal. Pure, except for the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from pystate.common.errors import PystateError, UserFunctionError
from pystate.common.user_code.user_frames import user_frame

MOST_FAILURES = 3
"""How often a job that has never completed a checkpoint may fail at one place."""


@dataclass(frozen=True)
class FailureSite:
    """The place where user code failed.

    Attributes:
        kind: The exception's type.
        frame: `File "...", line N, in f`; the task, if no line of the author's is involved.
    """

    kind: str
    frame: str

    @staticmethod
    def of(error: PystateError, stack_trace: str) -> FailureSite | None:
        """Return the site of a failure; None if no line of the author's is in its stack trace."""
        frame = user_frame(stack_trace)
        if not frame:
            return None
        kind = error.message.partition(":")[0] if isinstance(error, UserFunctionError) else type(error).__name__
        return FailureSite(kind, frame[0])

    def __str__(self) -> str:
        return f"{self.kind} at {self.frame}"


class RepeatedFailures:
    """Counts failures by site, or by another key."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def count(self, site: Hashable) -> bool:
        """Count a failure; return whether there have been too many at its site."""
        self._counts[site] += 1
        return self._counts[site] >= MOST_FAILURES

    def forget(self) -> None:
        """Reset: the job has progressed beyond its start."""
        self._counts.clear()
