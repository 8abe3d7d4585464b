"""What Spark is told for a job on the real-time engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

REAL_TIME_SETTINGS: Mapping[str, str] = {
    # Spark lists the operators that it has tried in this mode, and Python's are not among them
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # a row is a whole frame of records: one at a time, handed on at once
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "4",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
    "spark.shuffle.streaming.readerMaxMemory": str(256 << 10),
    "spark.shuffle.streaming.writerMaxMemory": str(256 << 10),
    # left alone, the system lets megabytes wait in each connection on loopback, and a barrier behind them
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.io.sendBuffer": str(128 << 10),
    "spark.shuffle.io.receiveBuffer": str(128 << 10),
}
"""Measured on 4.3.0, see docs/design/015."""

OF_A_SESSION = "spark.sql."
"""What begins so can be set at any time; the other settings are the application's, which has them from its start."""


def application_settings() -> dict[str, str]:
    """Return what an application must be started with."""
    return {key: value for key, value in REAL_TIME_SETTINGS.items() if not key.startswith(OF_A_SESSION)}


def application_notices(application: Callable[[str], str | None]) -> list[str]:
    """Return what people should know of an application that was started without this engine in mind.

    Args:
        application: Returns one of its settings; None if it has no such one.
    """
    missed = [key for key in application_settings() if application(key) is None]
    if not missed:
        return []
    return [
        f"The Spark application was started without {', '.join(missed)}: more records may be on their way between tasks, "
        "and barriers and results wait behind them. With execution.engine = real-time at its start it has them."
    ]


CORES_PER_SUBTASK = 16
"""Slots and relays are tasks that last as long as the attempt, and mostly wait: on one machine there is room for many."""


def real_time_threads(parallelism: int) -> int:
    """Return for how many tasks there is room on one machine, whatever the number of levels."""
    return CORES_PER_SUBTASK * parallelism + 2
