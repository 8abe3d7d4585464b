"""A host of a standalone cluster falls silent with Spark's own patience; its job runs elsewhere, or waits for it.

Either its link is cut, which no connection reports, or all of its processes are stopped, whose connections the system keeps.
Two readers from outside count what is lost and what is doubled: one of the folder that a sink writes, one of a savepoint.
"""

from __future__ import annotations

import signal

import pytest

from tests.e2e.clusters.counting_job import CountingJob
from tests.e2e.clusters.networks import hosts_or_skip, switch_link
from tests.e2e.clusters.spark_cluster import Cluster, bare_python
from tests.e2e.clusters.test_cut_off_host import slots_on
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.processes import descendants, is_gone, kill, needs_proc
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]

_PATIENCE_S = 3 * LONGEST_S
"""Until the loss of a host is noticed: the patience of slots, of Spark, and a start."""
_PARALLELISM = 2


@pytest.fixture
def hosts():
    with hosts_or_skip(4) as made:
        yield made


@pytest.fixture(params=[(MICRO_BATCH, 4), (REAL_TIME, 3), (REAL_TIME, 2)], ids=["micro-batch", "real-time", "no-room"])
def place(request):
    """The engine, and the cores of each host: with two each the real-time engine needs all of them."""
    return request.param


@pytest.fixture
def cluster(hosts, place, tmp_path):
    made = Cluster(tmp_path / "cluster", hosts[1:], hosts[0])
    yield made.start(cores=place[1])
    made.stop()


@pytest.fixture
def job(cluster, hosts, place, tmp_path):
    engine, cores = place
    options = {
        "execution.engine": engine,
        "pystate.spark.master": cluster.url,
        "spark.executor.instances": "3",
        "spark.executor.cores": str(cores),
    }
    python = ("-pyexec", bare_python(tmp_path / "bare"))
    made = CountingJob(tmp_path, options, str(tmp_path / "shared"), python, host=hosts[0], writes=True)
    yield made
    made.pystate.close()


class Silence:
    """What befalls one host of a cluster.

    Args:
        hosts: All hosts.
        cluster: The cluster.
        number: The number of its worker.
        hangs: Whether its processes are stopped; else its link is cut.
    """

    def __init__(self, hosts, cluster, number: int, *, hangs: bool) -> None:
        self._hosts, self._number, self._hangs = hosts, number, hangs
        worker = cluster.workers[number].pid
        self.processes = [worker, *descendants(worker)]
        self.of_job = self.processes[1:]
        """Those that must not live when it is over."""

    def begin(self) -> None:
        if self._hangs:
            for pid in self.processes:
                kill(pid, signal.SIGSTOP)
        else:
            switch_link(self._hosts, self._number + 1, up=False)

    def end(self) -> None:
        if self._hangs:
            for pid in self.processes:
                kill(pid, signal.SIGCONT)
        else:
            switch_link(self._hosts, self._number + 1, up=True)


@pytest.mark.parametrize("hangs", [False, True], ids=["cut-off", "hung"])
def test_a_host_that_falls_silent_is_fenced_and_nothing_is_lost_or_counted_twice(cluster, hosts, place, job, hangs):
    job.start(_PARALLELISM)
    job.wait_for_files()
    number = next(number for number in range(len(cluster.workers)) if slots_on(cluster, number))
    silence, attempt = Silence(hosts, cluster, number, hangs=hangs), job.attempt

    silence.begin()
    job.watched.add(3)  # counted by nobody, or by an attempt that fails
    if place == (REAL_TIME, 2):
        wait_until(lambda: "Waiting for" in job.waits_for, _PATIENCE_S)
    else:
        wait_until(lambda: job.goes_on(attempt), _PATIENCE_S)
        job.feed()
        job.wait_for_files()
    silence.end()
    wait_until(lambda: all(map(is_gone, silence.of_job)), _PATIENCE_S)
    wait_until(lambda: job.goes_on(attempt), _PATIENCE_S)
    job.feed()
    job.wait_for_files()
    job.end()
    assert job.missing_and_doubled()[1] == 0
