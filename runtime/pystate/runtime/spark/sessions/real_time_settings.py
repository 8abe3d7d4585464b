"""Spark settings for jobs on the real-time engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

REAL_TIME_SETTINGS: Mapping[str, str] = {
    # Spark allows the operators that were tested in this mode, and Python's are not among them
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # a row is a whole frame of records: one at a time, forwarded at once
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "4",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
    "spark.shuffle.streaming.readerMaxMemory": str(256 << 10),
    "spark.shuffle.streaming.writerMaxMemory": str(256 << 10),
    # by default, the system buffers megabytes in each loopback connection, and a barrier would queue behind them
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.io.sendBuffer": str(128 << 10),
    "spark.shuffle.io.receiveBuffer": str(128 << 10),
}
"""Measured on 4.3.0, see docs/design/015."""

OF_A_SESSION = "spark.sql."
"""The prefix of settings that can be set at any time; the others must be set when the application starts."""


_OF_ONE_MACHINE = {"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000"}
"""Frames pass the shuffle by there: only its clocks run, one for each task that writes."""


def application_settings(*, one_machine: bool = False) -> dict[str, str]:
    """Return the settings that an application must be started with.

    Args:
        one_machine: Whether its tasks run on one machine.
    """
    found = {key: value for key, value in REAL_TIME_SETTINGS.items() if not key.startswith(OF_A_SESSION)}
    return found | _OF_ONE_MACHINE if one_machine else found


def application_notices(application: Callable[[str], str | None]) -> list[str]:
    """Return notices about an application that was started without the settings for this engine.

    Args:
        application: Returns a setting of the application; None if it isn't set.
    """
    missed = [key for key in application_settings() if application(key) is None]
    if not missed:
        return []
    return [
        f"The Spark application was started without {', '.join(missed)}: more records may be on their way between tasks, "
        "and barriers and results wait behind them. With execution.engine = real-time at its start it has them."
    ]


CORES_PER_SUBTASK = 16
"""Slots and relays are tasks that last as long as the attempt, and mostly wait: one machine can run many."""


def real_time_threads(parallelism: int) -> int:
    """Return the number of tasks that one machine can run, whatever the number of levels."""
    return CORES_PER_SUBTASK * parallelism + 2
