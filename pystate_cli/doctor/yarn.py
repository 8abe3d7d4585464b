"""Checks of a YARN: Hadoop's settings, the resource manager, the queue, the size of containers, where checkpoints go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError
from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.doctor.machine import required_cores
from pystate_cli.doctor.storage import local_places

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

MASTER = "pystate.spark.master=yarn"
"""The option that makes a job one of YARN's."""
_OWN_MEMORY_MB, _LEAST_OVERHEAD_MB, _OVERHEAD_SHARE = 1024, 384, 0.1
"""Spark's defaults for an executor."""
_LARGEST_CONTAINER_MB = 8192
"""YARN's default."""


def check_yarn(configuration: Configuration, fetch: Callable[[str], Any] | None = None) -> Iterator[Finding]:
    """Check that a YARN is there for jobs, and that it could give them what they need.

    Args:
        configuration: The options in force.
        fetch: Fetches a page's JSON.
    """
    from pystate.common.configuration.hadoop_files import hadoop_properties
    from pystate.runtime.spark.applications.standalone_master import fetch_json
    from pystate.runtime.spark.applications.yarn_resource_manager import yarn_addresses, yarn_conf_dirs

    fetch = fetch or fetch_json
    folders = yarn_conf_dirs(configuration)
    try:
        addresses = yarn_addresses(folders)
    except ConfigurationError as error:
        yield fail("hadoop settings", error.message.rstrip("."), error.hint)
        return
    file = next(one for folder in folders if (one := folder / "yarn-site.xml").is_file())
    yield ok("hadoop settings", str(file))
    told = ((page, fetch(f"{page}/ws/v1/cluster/info")) for page in addresses.pages)
    page, info = next(((page, answer) for page, answer in told if isinstance(answer, dict)), ("", {}))
    if not page:
        text = f"no resource manager answers at {', '.join(addresses.pages)}"
        yield fail("yarn", text, "look whether it runs, or whether it asks for Kerberos there: jobs start all the same then")
    else:
        yield _check_nodes(page, info.get("clusterInfo", {}), fetch)
        yield _check_queue(page, configuration.spark_properties().get("spark.yarn.queue", "default"), fetch)
    yield _check_address(configuration)
    largest = hadoop_properties(file).get("yarn.scheduler.maximum-allocation-mb", "")
    yield from _check_executors(configuration, int(largest) if largest.isdecimal() else _LARGEST_CONTAINER_MB)
    yield _check_jars(configuration)
    yield _check_checkpoints(configuration)


def _check_nodes(page: str, info: dict[str, Any], fetch: Callable[[str], Any]) -> Finding:
    metrics = (fetch(f"{page}/ws/v1/cluster/metrics") or {}).get("clusterMetrics", {})
    nodes, free, total = (int(metrics.get(name, 0)) for name in ("activeNodes", "availableMB", "totalMB"))
    told = f"Hadoop {info.get('hadoopVersion', '?')} at {page}, {info.get('state', '?')}"
    if not nodes:
        return fail("yarn", f"{told}; it has no node managers", "start them: yarn --daemon start nodemanager")
    return ok("yarn", f"{told}; nodes: {nodes}, {free} of {total} MB free")


def _check_queue(page: str, name: str, fetch: Callable[[str], Any]) -> Finding:
    queues = dict(
        _queues(((fetch(f"{page}/ws/v1/cluster/scheduler") or {}).get("scheduler") or {}).get("schedulerInfo") or {})
    )
    state = next((queues[one] for one in queues if name in (one, one.rpartition(".")[2])), None)
    if state is None:
        there = ", ".join(sorted(queues)) or "none that can be read"
        return fail("queue", f"there is no queue {name}; there are {there}", "-D spark.yarn.queue=NAME")
    if state != "RUNNING":
        return fail("queue", f"the queue {name} is {state} and takes no applications", "-D spark.yarn.queue=NAME")
    return ok("queue", f"{name}, {state}")


def _queues(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, state) of the queues that applications may be in: of any scheduler."""
    below = ((told.get("queues") or {}).get("queue")) or (told.get("rootQueue") and [told["rootQueue"]])
    below = below or (told.get("childQueues") or {}).get("queue")
    if below:
        for one in below:
            yield from _queues(one)
    else:
        yield (
            str(told.get("queuePath") or told.get("queueName") or "default"),
            str(told.get("state") or told.get("qstate") or "RUNNING"),
        )


def _check_address(configuration: Configuration) -> Finding:
    from pystate.runtime.spark.applications.cluster_settings import address_towards

    users = configuration.spark_properties()
    own = users.get("spark.driver.host") or os.environ.get("SPARK_LOCAL_IP") or address_towards("yarn", 0, configuration)
    if own is None:
        text = "no route to the resource manager is known, so Spark guesses the driver's address"
        return warn("driver's address", text, "-D spark.driver.host=ADDRESS")
    return ok("driver's address", f"executors reach the driver at {own}")


def _check_executors(configuration: Configuration, largest_mb: int) -> Iterator[Finding]:
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
    if memory + overhead > largest_mb:
        text = f"{size}; YARN gives {largest_mb} at most (yarn.scheduler.maximum-allocation-mb)"
        yield fail("containers", text, "-D spark.executor.memory, -D spark.executor.memoryOverhead")
    elif "spark.executor.memoryOverhead" not in users:
        yield warn("containers", f"{size}; what grows over its container is killed", "-D spark.executor.memoryOverhead=2g")
    else:
        yield ok("containers", size)


def _check_jars(configuration: Configuration) -> Finding:
    users = configuration.spark_properties()
    if "spark.yarn.jars" in users or "spark.yarn.archive" in users:
        return ok("spark's jars", "they are on the cluster (spark.yarn.jars, spark.yarn.archive)")
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    size = sum(one.stat().st_size for one in folder.glob("*.jar")) >> 20
    hint = "put them there once: -D spark.yarn.archive=hdfs:///spark-jars.zip, or -D spark.yarn.jars=local:/path/on/nodes/*"
    return warn("spark's jars", f"each application uploads {size} MB of them", hint)


def _check_checkpoints(configuration: Configuration) -> Finding:
    key = "execution.checkpointing.dir"
    place, local = configuration.get_string(key, ""), local_places(configuration)
    if place and not local:
        return ok("shared storage", f"{place} is the same place on all nodes")
    text = f"{' and '.join(local) or f'{key} is not set'}: other machines must see the same files there"
    return warn("shared storage", text, f"-D {key}=hdfs:///checkpoints")


def _megabytes(text: str | None, default: int) -> int:
    """Return a size of Spark's in MB, which is its unit where none is written."""
    if not text:
        return default
    text = text.strip().lower().removesuffix("b")
    factor = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}.get(text[-1:], None)
    number = text if factor is None else text[:-1]
    return int(float(number) * (factor or 1)) if number.replace(".", "", 1).isdecimal() else default
