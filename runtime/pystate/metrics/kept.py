"""What a job's metrics said last, kept in a file of the job when its driver ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pystate.common.home import read_json, write_json
from pystate.common.job_files import JobFile

logger = logging.getLogger(__name__)

_VERSION = 1


def keep_metrics(file: JobFile, metrics: Callable[[], dict[str, Any]]) -> None:
    """Write the last metrics of a job. What goes wrong is logged: a job must not fail of what is only measured.

    Args:
        file: `JobDirectory.last_metrics`.
        metrics: Returns what `JobMetrics.to_plain` does.
    """
    try:
        told = metrics()
        write_json(file, {"version": _VERSION, "job": told["job"], "tasks": told["tasks"]})
    except Exception:
        logger.exception("the last metrics of the job are not kept")


def read_kept_metrics(file: JobFile) -> dict[str, Any] | None:
    """Return `job` and `tasks` as the driver wrote them; None where there are none, or none that can be read."""
    try:
        found: dict[str, Any] | None = read_json(file)
        if found is not None and found["version"] != _VERSION:
            logger.warning("%s has version %s, which is not known here", file, found["version"])
            return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        logger.warning("%s can't be read: %r", file, error)
        return None
    return found
