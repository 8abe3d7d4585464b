"""Waiting for a condition: the only loop of its kind in the tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_FIRST_POLL_SECONDS = 0.005
_LAST_POLL_SECONDS = 0.02
"""Many conditions are requests, which take time from the process that is waited for."""


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the first true value of `condition`."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_POLL_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause)
        pause = min(1.5 * pause, _LAST_POLL_SECONDS)
    return value
