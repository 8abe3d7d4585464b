"""Copies of a Spark session: the same application, catalogs, views and settings, and settings of their own beside them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
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


def forget_listeners(copy: SparkSession) -> None:
    """Let the application forget a copy that is done: else it keeps one listener for each, with all that belongs to it.

    Args:
        copy: The copy; queries can't be followed in it any more.
    """
    context: Any = copy.sparkContext
    if context._jsc is None:  # noqa: SLF001 - pyspark's own mark of a stopped one
        return
    with contextlib.suppress(Py4JError, OSError):  # it is being stopped, or is of a Spark that names it otherwise
        manager: Any = copy._jsparkSession.streams()  # noqa: SLF001 - as above
        field = manager.getClass().getDeclaredField("listenerBus")
        field.setAccessible(True)
        context._jsc.sc().removeSparkListener(field.get(manager))  # noqa: SLF001
