"""Checks of a Spark session that programs make themselves: whether jobs can run in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.doctor.spark_program import SECONDS, NoAnswerError, answer_of

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

# what spark-defaults.conf, SPARK_CONF_DIR and PYSPARK_SUBMIT_ARGS say; no application is started
_SETTINGS = """
import json, os
from pyspark import SparkConf, SparkContext
SparkContext._ensure_initialized()
os.write(1, json.dumps(dict(SparkConf().getAll())).encode())
"""
_NAME = "session"


def check_session(configuration: Configuration) -> Iterator[Finding]:
    """Check the settings that a plain `SparkSession.builder.getOrCreate()` would start its application with, one by one.

    Args:
        configuration: Has the parallelism and the engine of the job.
    """
    from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionOptions
    from pystate.runtime.spark.sessions.session_requirements import missing, requirements

    settings = _settings()
    if isinstance(settings, Finding):
        yield settings
        return
    parallelism, engine = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM)), configuration.get(ExecutionOptions.ENGINE)
    lacking = missing(parallelism, engine, settings.get)
    for one in lacking:
        text = f"{one.requirement.key} is {one.found or 'not set'}: {one.requirement.why}"
        say = fail if one.requirement.grave else warn
        yield say(_NAME, text, f"{one.line}   (in spark-defaults.conf)")
    if not lacking:
        count = len({one.key for one in requirements(parallelism, engine)})
        yield ok(_NAME, f"{count} settings are as a job of parallelism {parallelism} needs them in a session of yours")


def _settings() -> dict[str, str] | Finding:
    try:
        found: dict[str, str] = answer_of(_SETTINGS)
    except NoAnswerError as error:
        if error.reason is None:
            return fail(_NAME, f"PySpark did not tell its settings within {SECONDS} s", "pystate doctor --spark -v")
        return fail(_NAME, f"PySpark does not tell its settings: {error.reason}", "look at Java and at SPARK_HOME")
    return found
