"""The limit of open files and connections of this process."""

from __future__ import annotations

import resource

from pystate.common.errors import ConfigurationError

FILES_OF_SPARK = 512
"""The files that a JVM of Spark's has open soon after its start: some 300 jars, its modules, connections."""


def allow_open_files(count: int) -> bool:
    """Raise the soft limit of open files if it is lower, up to the hard limit; Java does so by itself.

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


def check_files_of_spark() -> None:
    """Refuse to start Spark where its JVM could not open its own jars: it would end without naming the reason.

    Raises:
        ConfigurationError: The limit is too low.
    """
    if not allow_open_files(FILES_OF_SPARK):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        message = f"A process may have {limit} files open here, and Spark's JVM has {FILES_OF_SPARK} soon after its start."
        hint = "raise the limit where the job manager is started: ulimit -Hn 65536, or LimitNOFILE= of its service"
        raise ConfigurationError(message, where="ulimit -n", hint=hint)
