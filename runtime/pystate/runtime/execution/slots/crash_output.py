"""Parses the output of a slot's watchdog: what crashed its process or holds its interpreter, at which user line."""

from __future__ import annotations

import re
from pathlib import Path

import pystate
from pystate.runtime.slot.watchdog import ENDED_ITSELF

_CAUSE = re.compile(rf"(?:Fatal Python error: |{ENDED_ITSELF})([^\n]+)")
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
_NOT_THE_USERS = ("/site-packages/", "/lib/python3", "<frozen ")
_OUR_CODE = f"/{Path(pystate.__file__).parent.name}/runtime/"


def crash_cause(words: str) -> str | None:
    """Return what ended the process and where; None if it said nothing.

    Args:
        words: Its last output, as written by `Watchdog` and Python's faulthandler.
    """
    causes = list(_CAUSE.finditer(words))
    if not causes:
        return None
    block = words[causes[-1].end() :].partition("Current thread")[2].split("\n\n")[0]
    line = user_line(block)
    return causes[-1][1] if line is None else f"{causes[-1][1]}, {line}"


def held_at(words: str) -> str | None:
    """Return the user's line that a thread is executing; None if there is none."""
    lines = [user_line(block) for block in words.rpartition("Timeout (")[2].split("Thread 0x") if _OUR_CODE in block]
    return next((line for line in lines if line is not None), None)


def user_line(block: str) -> str | None:
    """Return the innermost user line of a thread's stack: `line 3 in process_element of /jobs/count.py`."""
    for path, line, function in _FRAME.findall(block):
        if _OUR_CODE in path or any(part in path for part in _NOT_THE_USERS):
            continue
        return f"line {line} in {function} of {path}"
    return None
