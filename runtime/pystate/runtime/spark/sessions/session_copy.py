"""Copies of a Spark session: the same application, catalogs, views and settings, and settings of their own beside them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

_LOCK = threading.Lock()


class SessionOfJob(SparkSession):
    """The session of one job.

    PySpark keeps the session that last made a DataFrame of Python's data as the active one of the whole process: this one
    leaves that place to the program's.
    """

    def createDataFrame(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802 - Spark's name
        """Create a DataFrame, see `SparkSession.createDataFrame`."""
        with _LOCK:
            active = SparkSession._activeSession  # noqa: SLF001 - pyspark has no way to put it back
            try:
                return super().createDataFrame(*arguments, **options)
            finally:
                SparkSession._activeSession = active  # noqa: SLF001


def session_like(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a copy of a session, in its application, with further settings.

    Args:
        session: The session, which stays as it is.
        settings: The settings.
    """
    jvm_session: Any = session._jsparkSession  # noqa: SLF001 - pyspark has only newSession(), which forgets settings
    copy = SessionOfJob(session.sparkContext, jvm_session.cloneSession())
    for key, value in settings.items():
        copy.conf.set(key, value)
    return copy
