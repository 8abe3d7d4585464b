"""Waiting for what must happen, the only loop and limit of its kind in the tests; and looking at folders that change."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystate.common.processes.machine_load import PatientDeadline

LONGEST_S = 200.0
"""How long a test waits for anything that must happen: a bound for what hangs, and no statement about speed.

It is below pytest's limit for a test (`timeout` in pyproject.toml), so that the wait is what fails, and says for what.
"""
_FIRST_POLL_SECONDS = 0.005
_LAST_POLL_SECONDS = 0.02
"""Many conditions are requests, which take time from the process that is waited for."""


def wait_until(condition: Callable[[], Any], seconds: float = LONGEST_S) -> Any:
    """Return the first true value of `condition`; on a busy machine it may come later by as much as that is busy."""
    deadline = PatientDeadline(seconds)
    pause = _FIRST_POLL_SECONDS
    while not (value := condition()):
        assert not deadline.has_passed(), "it did not happen in time"
        time.sleep(pause)
        pause = min(1.5 * pause, _LAST_POLL_SECONDS)
    return value


def ends(thread: threading.Thread, seconds: float = LONGEST_S) -> bool:
    """Wait for the end of a thread, longer on a busy machine; return whether it has ended."""
    deadline = PatientDeadline(seconds)
    while thread.is_alive() and not deadline.has_passed():
        thread.join(0.2)
    return not thread.is_alive()


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder in which others make and delete folders: `Path.rglob` fails where one goes."""
    return sorted(Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
