"""How much memory something takes at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def least_peak(action: Callable[[], Any], times: int = 3) -> int:
    """Return the lowest of the peaks of some runs, in bytes: threads that other tests have left take memory now and then."""
    peaks = []
    for _ in range(times):
        tracemalloc.start()
        try:
            action()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)
