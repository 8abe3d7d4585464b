"""What `doctor` checks of every cluster that gives containers to executors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.doctor.machine import required_cores
from pystate_cli.doctor.storage import local_places

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

_OWN_MEMORY_MB, _LEAST_OVERHEAD_MB, _OVERHEAD_SHARE = 1024, 384, 0.1
"""Spark's defaults for an executor."""


def check_address(configuration: Configuration, master: str, manager: str) -> Finding:
    """Check which address of this machine executors are told.

    Args:
        configuration: The options in force.
        master: Spark's master.
        manager: What is asked for a route to, in words.
    """
    from pystate.runtime.spark.applications.cluster_settings import address_towards

    users = configuration.spark_properties()
    own = users.get("spark.driver.host") or os.environ.get("SPARK_LOCAL_IP") or address_towards(master, 0, configuration)
    if own is None:
        text = f"no route to {manager} is known, so Spark guesses the driver's address"
        return warn("driver's address", text, "-D spark.driver.host=ADDRESS")
    return ok("driver's address", f"executors reach the driver at {own}")


def check_executors(
    configuration: Configuration, cluster: str, largest_mb: int | None = None, largest_key: str = ""
) -> Iterator[Finding]:
    """Check that enough cores are asked, and how large the containers of executors are.

    Args:
        configuration: The options in force.
        cluster: What gives them, in words.
        largest_mb: The largest container that it gives; None if unknown.
        largest_key: Its setting that says so.
    """
    users, required = configuration.spark_properties(), required_cores(configuration)
    instances, cores = int(users.get("spark.executor.instances", 2)), int(users.get("spark.executor.cores", 1))
    text = f"{instances} x {cores} cores are asked (spark.executor.instances x spark.executor.cores)"
    text = f"{text}, parallelism {required.parallelism} needs {required.cores}"
    if instances * cores < required.cores:
        yield fail("executors", text, f"-D spark.executor.cores={-(-required.cores // max(instances, 1))}")
    else:
        yield ok("executors", text)
    memory = _megabytes(users.get("spark.executor.memory"), _OWN_MEMORY_MB)
    overhead = _megabytes(users.get("spark.executor.memoryOverhead"), max(_LEAST_OVERHEAD_MB, int(_OVERHEAD_SHARE * memory)))
    size = f"a container of {memory + overhead} MB for each, {overhead} of them for Python and its state"
    if largest_mb is not None and memory + overhead > largest_mb:
        text = f"{size}; {cluster} gives {largest_mb} at most ({largest_key})"
        yield fail("containers", text, "-D spark.executor.memory, -D spark.executor.memoryOverhead")
    elif "spark.executor.memoryOverhead" not in users:
        yield warn("containers", f"{size}; what grows over its container is killed", "-D spark.executor.memoryOverhead=2g")
    else:
        yield ok("containers", size)


def check_checkpoints(configuration: Configuration, example: str) -> Finding:
    """Check that checkpoints go where all nodes see them.

    Args:
        configuration: The options in force.
        example: A place that is right.
    """
    key = "execution.checkpointing.dir"
    place, local = configuration.get_string(key, ""), local_places(configuration)
    if place and not local:
        return ok("shared storage", f"{place} is the same place on all nodes")
    text = f"{' and '.join(local) or f'{key} is not set'}: other machines must see the same files there"
    return warn("shared storage", text, f"-D {key}={example}")


def _megabytes(text: str | None, default: int) -> int:
    """Return a size of Spark's in MB, which is its unit where none is written."""
    if not text:
        return default
    text = text.strip().lower().removesuffix("b")
    factor = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}.get(text[-1:], None)
    number = text if factor is None else text[:-1]
    return int(float(number) * (factor or 1)) if number.replace(".", "", 1).isdecimal() else default
