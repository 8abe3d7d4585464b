"""The discovery file of a home's job manager, by which commands find it."""

from __future__ import annotations

import fcntl
import json
from typing import Any

from pystate.common.errors import ControlError
from pystate.common.files.home import PystateHome
from pystate.common.files.regular_files import MAX_WORD_BYTES, open_regular, read_small_file

REWRITE_SECONDS = 2.0
"""How often a job manager checks whether its address file is damaged, and rewrites it."""
_KINDS: dict[str, type] = {"pid": int, "address": str, "port": int, "instance": str}


class DamagedAddressError(ControlError):
    """A job manager serves the home, but the file with its address can't be read."""


def read_job_manager(home: PystateHome) -> dict[str, Any] | None:
    """Return pid, address, port and instance of the home's job manager; None if there is no entry.

    A damaged file counts as none where no job manager holds the home's lock: the next one writes it anew.

    Raises:
        DamagedAddressError: It is damaged, and a job manager runs.
    """
    try:
        entry = _read(home)
    except FileNotFoundError:
        return None
    if entry is not None or not is_served(home):
        return entry
    message = "A job manager serves this home, and the file that says where is damaged."
    hint = f"the same command in a moment; the job manager writes the file anew within {REWRITE_SECONDS:g} s"
    raise DamagedAddressError(message, where=str(home.jobmanager), hint=hint)


def is_damaged(home: PystateHome) -> bool:
    """Return whether the file exists and is damaged."""
    try:
        return _read(home) is None
    except FileNotFoundError:
        return False


def _read(home: PystateHome) -> dict[str, Any] | None:
    try:
        entry = json.loads(read_small_file(home.jobmanager, MAX_WORD_BYTES))
    except (ValueError, RecursionError):
        return None
    known = isinstance(entry, dict) and all(type(entry.get(key)) is kind for key, kind in _KINDS.items())
    return entry if known else None


def is_served(home: PystateHome) -> bool:
    """Return whether a job manager holds the home's lock, which the operating system releases when it dies."""
    try:
        with open_regular(str(home.jobmanager_lock)) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
