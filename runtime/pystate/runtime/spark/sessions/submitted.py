"""What `spark-submit` says of the application of a program that it has started.

Its JVM runs already, and the program starts the application in it: settings can still be set, but for those of the JVM
itself. `--conf spark.pystate.KEY=VALUE` sets an option of pystate, since spark-submit takes no keys without `spark.`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions, SparkOptions
from pystate.common.configuration.options import is_known
from pystate.runtime.spark.sessions.session_requirements import MASTER, REFUSED

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""In the environment of programs that a JVM of Spark's has started."""
OPTIONS = "spark.pystate."
_ANY_CORES = "local[*]"
"""What spark-submit says without `--master`."""
_YARN_APPLICATION = "spark.yarn.app.id"
"""Said by the application master alone, if the driver is in it: the same in all attempts of an application."""
_OF_SUBMIT = ("spark.submit.", "spark.app.submitTime", "spark.app.id", "spark.app.startTime")


def submitted_settings() -> dict[str, str] | None:
    """Return the settings of `spark-submit`; None if it hasn't started this process, or if the application runs already."""
    if GATEWAY not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext  # late: the import of pyspark takes long

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - asking in public would start one
        return None
    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the JVM that is there
    return dict(SparkConf().getAll())


def with_submitted(configuration: Configuration, settings: Mapping[str, str]) -> list[str]:
    """Put what `spark-submit` says above what the file of options says; return sentences for the program's author.

    Args:
        configuration: The options of the file, which are changed.
        settings: The settings of `spark-submit`.
    """
    notices = []
    for key, value in settings.items():
        if key == MASTER:
            if value != _ANY_CORES:  # else the job takes as many threads as it needs
                configuration.set_string(SparkOptions.MASTER.key, value)
        elif key.startswith(OPTIONS):
            own = key.removeprefix("spark.")
            configuration.set_string(own if is_known(own) else key.removeprefix(OPTIONS), value)
        elif key in REFUSED and value.lower() == "true":
            notices.append(f"{key} = true of spark-submit is switched off: {REFUSED[key]}.")
        elif not key.startswith(_OF_SUBMIT):
            configuration.set_string(key, value)
    application = settings.get(_YARN_APPLICATION)
    if application is not None and not configuration.contains(PystateOptions.JOB_ID):
        # another attempt of the application is another start of the same job
        configuration.set(PystateOptions.JOB_ID, hashlib.blake2b(application.encode(), digest_size=16).hexdigest())
    return notices
