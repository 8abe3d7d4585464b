"""Checks of a YARN: Hadoop's settings, the resource manager, the queue, the size of containers, where checkpoints go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError
from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.doctor.cluster import check_address, check_checkpoints, check_executors

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

MASTER = "pystate.spark.master=yarn"
"""The option that makes a job one of YARN's."""
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
    yield check_address(configuration, "yarn", "the resource manager")
    largest = hadoop_properties(file).get("yarn.scheduler.maximum-allocation-mb", "")
    most = int(largest) if largest.isdecimal() else _LARGEST_CONTAINER_MB
    yield from check_executors(configuration, "YARN", most, "yarn.scheduler.maximum-allocation-mb")
    yield _check_jars(configuration)
    yield check_checkpoints(configuration, "hdfs:///checkpoints")


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


def _check_jars(configuration: Configuration) -> Finding:
    users = configuration.spark_properties()
    if "spark.yarn.jars" in users or "spark.yarn.archive" in users:
        return ok("spark's jars", "they are on the cluster (spark.yarn.jars, spark.yarn.archive)")
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    size = sum(one.stat().st_size for one in folder.glob("*.jar")) >> 20
    hint = "put them there once: -D spark.yarn.archive=hdfs:///spark-jars.zip, or -D spark.yarn.jars=local:/path/on/nodes/*"
    return warn("spark's jars", f"each application uploads {size} MB of them", hint)
