"""The execution target of a job, from execution.target and Spark's master together."""

from __future__ import annotations

import os
import re

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.deployment_options import DeploymentOptions, ExecutionTarget
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_EXAMPLE = "set pystate.spark.master to a cluster, such as spark://host:7077, yarn or k8s://https://host:443"


def local_threads(master: str) -> int | None:
    """Return how many tasks a local master runs at once; None for a cluster."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    if match[1] == "*":
        return os.cpu_count() or 1
    return int(match[1] or 1)


def execution_target(configuration: Configuration) -> ExecutionTarget:
    """Return the target of the job: execution.target if set, else derived from Spark's master.

    Raises:
        ConfigurationError: The two contradict each other.
    """
    key = DeploymentOptions.TARGET.key
    target = configuration.get(DeploymentOptions.TARGET)
    master = configuration.get(SparkOptions.MASTER)
    found = ExecutionTarget.LOCAL if master is None or local_threads(master) is not None else ExecutionTarget.SPARK
    if target is None or target is found:
        return found
    if target is ExecutionTarget.LOCAL:
        message = f"{key} = local is this machine, but {SparkOptions.MASTER.key} = {master} is a cluster."
        raise ConfigurationError(message, where=key, hint=f"leave {key} out, or leave {SparkOptions.MASTER.key} out")
    if master is None:
        message = f"{key} = spark needs a cluster, but {SparkOptions.MASTER.key} is not set."
        raise ConfigurationError(message, where=key, hint=_EXAMPLE)
    message = f"{key} = spark needs a cluster, but {SparkOptions.MASTER.key} = {master} is threads of this machine."
    raise ConfigurationError(message, where=key, hint=f"{_EXAMPLE}, or leave {key} out")
