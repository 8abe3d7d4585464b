"""How many files and connections this process may have open."""

from __future__ import annotations

import resource


def allow_open_files(count: int) -> bool:
    """Raise the soft limit of open files where it is lower, as far as the hard one lets us; Java does so by itself.

    Args:
        count: So many are needed.

    Returns:
        Whether there may be so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return True
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed >= count
