"""How a program that runs its jobs itself ends with an error: by sentence, place and next step, as commands do."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

from pystate.common.errors import PystateError, UserFunctionError
from pystate.common.user_code.user_frames import add_user_frame, user_frame


def tell_errors_in_words() -> None:
    """Let errors for people that end this program be told without a stack trace, which says nothing of its author's code.

    Only where nobody else has a say in that: not at a prompt, in a notebook, in a program with a hook of its own, or with
    `python -X dev`. What the author's functions raise keeps its stack trace.
    """
    at_a_prompt = hasattr(sys, "ps1") or sys.flags.interactive
    if sys.excepthook is sys.__excepthook__ and not at_a_prompt and not sys.flags.dev_mode:
        sys.excepthook = _tell


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, PystateError) or not _is_whole(error):
        sys.__excepthook__(kind, error, trace)
        return
    add_user_frame(error, "".join(traceback.format_exception(kind, error, trace)))
    first, *rest = str(error).splitlines() or [kind.__name__]
    sys.stderr.write("\n".join([f"error: {first}", *rest, ""]))


def _is_whole(error: BaseException) -> bool:
    """Whether its text says all: neither it nor what it comes of was raised by the author's functions."""
    if isinstance(error, UserFunctionError):
        return False
    cause = error.__cause__
    while cause is not None:
        trace = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__, chain=False))
        if isinstance(cause, UserFunctionError) or user_frame(trace):
            return False
        cause = cause.__cause__
    return True
