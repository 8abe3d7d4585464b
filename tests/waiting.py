"""Waiting for a condition: the only loop of its kind in the tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_POLL_SECONDS = 0.005


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(_POLL_SECONDS)
    return value
