"""A host of a standalone cluster hangs with slots, and goes on when their job runs elsewhere.

All of its processes are stopped, with Spark's own patience: the system keeps their connections, and nobody is told.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.e2e.clusters.counting_job import CountingJob
from tests.e2e.clusters.spark_cluster import LOOPBACK, Cluster, bare_python
from tests.engines import on_micro_batch
from tests.faults.processes import descendants, is_gone, kill, needs_proc, slots_below
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1500)]

_PATIENCE_S = 3 * LONGEST_S
"""Until the job goes on: the patience of slots, of Spark, and a start."""
_CORES = 4
"""Of each executor; on two of three hosts a job has all that it needs."""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path / "cluster", [LOOPBACK] * 3)
    yield made.start(_CORES)
    made.stop()


@pytest.fixture
def job(cluster, engine, tmp_path):
    options = {
        "execution.engine": engine,
        "pystate.spark.master": cluster.url,
        "spark.master.ui.port": str(cluster.web_port),
        "spark.executor.cores": str(_CORES),
    }
    made = CountingJob(tmp_path, options, str(tmp_path / "shared"), ("-pyexec", bare_python(tmp_path / "bare")), writes=True)
    yield made
    made.pystate.close()


@on_micro_batch
def test_a_job_goes_on_elsewhere_and_a_host_that_hung_does_no_harm_when_it_goes_on(cluster, job):
    job.start(2)
    job.wait_for_files()
    host = next(worker.pid for worker in cluster.workers if slots_below(worker.pid))
    stopped, attempt = [host, *descendants(host)], job.attempt

    for pid in stopped:
        kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    job.watched.add(3)  # counted by nobody, or by an attempt that fails
    wait_until(lambda: job.goes_on(attempt), _PATIENCE_S)
    print(f"RUNNING again {time.monotonic() - began:.0f} s after the host hung")
    wait_until(lambda: job.missing_and_doubled() == (0, 0), _PATIENCE_S)
    print(f"all is counted {time.monotonic() - began:.0f} s after the host hung, in attempt {job.attempt}")
    attempt = job.attempt
    for pid in stopped:
        kill(pid, signal.SIGCONT)
    wait_until(lambda: all(map(is_gone, stopped[1:])), _PATIENCE_S)
    job.feed()
    job.wait_for_files()
    assert job.attempt == attempt
    job.end()
    assert job.missing_and_doubled() == (0, 0)
