"""How far apart the partitions in front of an exchange were at their ends: what a barrier's alignment takes."""

from __future__ import annotations

from collections.abc import Sequence


def alignment_ms(ends: Sequence[int], triggered: int) -> int | None:
    """Return the time from the first to the last end of a task of the stage that feeds an exchange.

    A task that ended before the checkpoint was triggered waits for the others only since then.

    Args:
        ends: When the tasks ended, ms since 1970.
        triggered: When the checkpoint was triggered, ms since 1970.

    Returns:
        Milliseconds; None where Spark doesn't know of any end.
    """
    return max(0, max(ends) - max(min(ends), triggered)) if ends else None
