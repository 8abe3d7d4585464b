"""How old a staged file is at least before it counts as one that no checkpoint will commit any more."""

from __future__ import annotations

from pystate.common.errors import UsageError
from pystate.common.time import Duration

HOUR_MS = 3_600_000


def whole_hours(older_than: Duration, where: str) -> int:
    """Return an age in hours.

    Args:
        older_than: The age; whole hours.
        where: The table, for messages.

    Raises:
        UsageError: The age is below an hour.
    """
    hours = older_than.to_millis() // HOUR_MS
    if hours < 1:
        message = "Files that are younger than an hour may belong to a checkpoint that is under way."
        raise UsageError(message, where=where, hint="Duration.of_days(7)")
    return hours
