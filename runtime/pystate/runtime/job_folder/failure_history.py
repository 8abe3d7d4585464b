"""The failure history in a job's status, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pystate.common.errors import PystateError, UserFunctionError
from pystate.common.text.bounded_text import bounded_text
from pystate.common.text.plain_data import OpenPlainData, entry

MAX_FAILURES = 16
"""How many failures are kept; `failure_count` counts on."""

MAX_STACK_TRACE = 8 << 10
"""Characters of a stack trace that are kept of each."""

_BEGINNING = 2 << 10
_RAISED = re.compile(r"[A-Za-z_][\w.$]*(?=: | \(no message\))")
"""The prefix of the message of a `UserFunctionError` about an exception, see `error_sentence`."""


@dataclass(frozen=True)
class JobFailure(OpenPlainData):
    """The failure of a job or of an attempt: `PystateError.to_dict` with a stack trace.

    Attributes:
        message: What happened.
        error_class: The name of the error's class.
        where: The function, file or place.
        hint: The next command.
        stack_trace: The stack trace as Python prints it.
    """

    message: str
    error_class: str = entry("class")
    where: str | None = None
    hint: str | None = None
    stack_trace: str = ""

    @property
    def raised(self) -> str:
        """The class of the raised exception; of a user function, that of the user's exception."""
        found = _RAISED.match(self.message) if self.error_class == UserFunctionError.__name__ else None
        return self.error_class if found is None else found[0]

    @staticmethod
    def of(error: BaseException, stack_trace: str) -> JobFailure:
        """Return the failure for an error."""
        if isinstance(error, PystateError):
            return JobFailure.from_plain({**error.to_dict(), "stack_trace": stack_trace})
        return JobFailure(str(error) or type(error).__name__, type(error).__name__, stack_trace=stack_trace)


@dataclass(frozen=True)
class AttemptFailure(JobFailure):
    """An entry of the failure history.

    Attributes:
        attempt: The number of the execution attempt.
        timestamp: When, ms since 1970.
    """

    attempt: int = 0
    timestamp: int = -1


def with_failure(
    failures: Sequence[AttemptFailure], failure: JobFailure, attempt: int, timestamp: int
) -> list[AttemptFailure]:
    """Return the history with one more failure at the front.

    Args:
        failures: The history; not changed.
        failure: What happened.
        attempt: The number of the attempt that has failed.
        timestamp: When, ms since 1970.
    """
    bounded = replace(failure, stack_trace=bounded_trace(failure.stack_trace))
    plain: dict[str, Any] = {**bounded.to_plain(), "attempt": attempt, "timestamp": timestamp}
    return [AttemptFailure.from_plain(plain), *failures][:MAX_FAILURES]


def bounded_trace(text: str) -> str:
    """Return a stack trace, without its middle if it is too long."""
    return bounded_text(text, MAX_STACK_TRACE, _BEGINNING)
