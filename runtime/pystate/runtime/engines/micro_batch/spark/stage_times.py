"""Measures how far apart in time the partitions upstream of an exchange ended: the alignment time of a barrier."""

from __future__ import annotations

from collections.abc import Sequence


def alignment_ms(ends: Sequence[int], triggered: int) -> int | None:
    """Return the time between the first and the last task end in the stage that feeds an exchange.

    A task that ended before the checkpoint was triggered counts as waiting only from the trigger on.

    Args:
        ends: When the tasks ended, ms since 1970.
        triggered: When the checkpoint was triggered, ms since 1970.

    Returns:
        Milliseconds; None if Spark knows no task end.
    """
    return max(0, max(ends) - max(min(ends), triggered)) if ends else None
