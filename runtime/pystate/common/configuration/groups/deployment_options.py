"""The options of where a job runs and with which Python, in groups with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import EnumType, StringType


class ExecutionTarget(str, Enum):
    """Where a job runs."""

    LOCAL = "local"
    SPARK = "spark"


class DeploymentOptions:
    """Where jobs run."""

    TARGET = ConfigOption[ExecutionTarget | None](
        "execution.target",
        EnumType(ExecutionTarget),
        None,
        "Where the job's Spark runs: local is threads of this machine, spark is the cluster that pystate.spark.master names."
        " Where it is not set, the master says it. The driver runs on this machine in both cases, under the job manager of"
        " this PYSTATE_HOME.",
    )


class PythonOptions:
    """The Python that functions run in, and what it is given."""

    PYTHON_FILES = ConfigOption[str | None](
        "python.files",
        StringType("paths with commas between them"),
        None,
        "Python files of the job that don't stand beside its program: .py, .zip, .egg and .whl files and folders, each of"
        " them put before the module path of the driver and of Spark's workers; run -pyfs sets it.",
    )
    PYTHON_ARCHIVES = ConfigOption[str | None](
        "python.archives",
        StringType("paths with commas between them, each with #NAME after it or without"),
        None,
        "Archives (.zip, .jar, .tar.gz, .tgz, .tar) that Spark unpacks in the working folder of each executor, into a folder"
        " NAME, or of the archive's name: data, or a whole Python environment for python.executable; run -pyarch sets it.",
    )
    PYTHON_EXECUTABLE = ConfigOption[str | None](
        "python.executable",
        StringType("a path or a command"),
        None,
        "The Python of Spark's workers, for example environment/bin/python from python.archives; run -pyexec sets it. Where"
        " it is not set, it is spark.pyspark.python, on a cluster PYSPARK_PYTHON, else the path of the driver's own Python.",
    )
