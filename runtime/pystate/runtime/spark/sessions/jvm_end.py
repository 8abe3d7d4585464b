"""Determines how the JVM of a Spark application, a child process of the driver, has ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OUT_OF_MEMORY = 52
"""Spark's exit code for an uncaught `java.lang.OutOfMemoryError` (`SparkExitCode.OOM`)."""
_NOTICE_S = 2.0
"""How long to wait for the end of a JVM that doesn't answer any more."""


def jvm_end(spark: SparkSession) -> str | None:
    """Return how the JVM has ended, as a part of a sentence; None if it is alive, or unknown."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - pyspark has no public way to its JVM
    process = getattr(gateway, "proc", None)
    if not isinstance(process, subprocess.Popen):
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return describe_jvm_end(process.wait(_NOTICE_S))
    return None


def describe_jvm_end(exit_code: int) -> str:
    """Return how a JVM has ended.

    Args:
        exit_code: Its exit code; negative for a signal.
    """
    if exit_code == _OUT_OF_MEMORY:
        return "its JVM ran out of memory: java.lang.OutOfMemoryError"
    if exit_code >= 0:
        return f"its JVM ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"its JVM was killed: {name}"
