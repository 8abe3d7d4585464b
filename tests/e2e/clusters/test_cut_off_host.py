"""A host of a standalone cluster is cut off from the network, and comes back when its job runs elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.clusters.counting_job import CountingJob
from tests.e2e.clusters.networks import hosts_or_skip, switch_link
from tests.e2e.clusters.spark_cluster import Cluster, bare_python
from tests.faults.processes import command_of, descendants, is_gone, is_slot, needs_proc, parent
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]

_PATIENCE_S = 3 * LONGEST_S
"""Until the loss of a host is noticed, which no connection reports: the patience of slots, of Spark, and a start."""

_DAEMON = "pyspark.daemon"


@pytest.fixture
def hosts():
    with hosts_or_skip(4) as made:
        yield made


@pytest.fixture
def cluster(hosts, tmp_path):
    made = Cluster(tmp_path / "cluster", hosts[1:], hosts[0])
    yield made.start(cores=5)
    made.stop()


@pytest.fixture
def job(cluster, hosts, tmp_path):
    options = {
        "pystate.spark.master": cluster.url,
        "spark.executor.instances": "3",
        "spark.network.timeout": "30s",
        "spark.network.timeoutInterval": "15s",
        "spark.executor.heartbeatInterval": "5s",
    }
    python = ("-pyexec", bare_python(tmp_path / "bare"))
    made = CountingJob(tmp_path, options, str(tmp_path / "shared"), python, host=hosts[0])
    yield made
    made.pystate.close()


def slots_on(cluster: Cluster, number: int) -> list[int]:
    """Return the slots below a worker: executors listen, too, and daemons that fork Python workers."""
    below = descendants(cluster.workers[number].pid)
    return [pid for pid in below if _DAEMON in command_of(pid) and _DAEMON in parent(pid) and is_slot(pid)]


def test_a_host_that_was_cut_off_is_fenced_and_nothing_is_lost_or_counted_twice(cluster, hosts, job, tmp_path: Path):
    job.start(3)
    number = next(number for number in range(3) if slots_on(cluster, number))
    cut_off, attempt = slots_on(cluster, number), job.attempt

    switch_link(hosts, number + 1, up=False)
    job.watched.add(3)  # counted by nobody, or by an attempt that fails
    wait_until(lambda: job.goes_on(attempt), _PATIENCE_S)
    job.feed()
    switch_link(hosts, number + 1, up=True)
    wait_until(lambda: all(map(is_gone, cut_off)), _PATIENCE_S)
    job.feed()
    job.end()
