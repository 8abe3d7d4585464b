"""`pystate run -t spark` on a real YARN, with checkpoints on its HDFS: shipping, savepoints, and what is killed there."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from tests.e2e.clusters.spark_cluster import bare_python
from tests.e2e.clusters.yarn_job import YarnJob, known_yarn_cluster
from tests.faults.processes import kill, needs_proc
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def start_cluster(tmp_path):
    """Start a cluster, which the test and the commands it calls know by HADOOP_CONF_DIR."""
    with contextlib.ExitStack() as started:
        yield lambda **options: started.enter_context(known_yarn_cluster(tmp_path / "cluster", **options))


@pytest.fixture
def start_job(tmp_path):
    """Make a job, see `YarnJob`."""
    made: list[YarnJob] = []

    def start(*given: object) -> YarnJob:
        made.append(YarnJob(tmp_path, *given))
        return made[-1]

    yield start
    for job in made:
        job.pystate.close()


def test_a_job_loses_an_executor_and_its_application_and_is_resumed_wider(start_cluster, start_job, tmp_path):
    cluster = start_cluster()
    python = bare_python(tmp_path / "bare")
    archive = shutil.make_archive(str(tmp_path / "environment"), "gztar", python.parent, python.name)
    job = start_job(cluster, "micro-batch", ("-pyarch", f"{archive}#packed", "-pyexec", "packed/python"))
    job.start(2)
    first = job.application_id
    assert first.startswith("application_")
    saved = job.pystate("savepoint", "-yid", first)
    assert saved.splitlines()[-1].startswith(f"hdfs://{cluster.hdfs.address}/savepoints/savepoint-")
    refused = job.pystate.python("-m", "pystate_cli", "savepoint", "-yid", f"{first[:-4]}9999")
    assert refused.returncode == 1
    assert f'No job is the Spark application "{first[:-4]}9999".' in refused.stderr

    attempt = job.attempt
    kill(cluster.executors()[0])
    wait_until(lambda: job.goes_on(attempt))
    job.feed()

    attempt = job.attempt
    cluster.yarn("application", "-kill", first)
    wait_until(lambda: job.goes_on(attempt) and job.application_id != first)
    job.feed()
    assert "was killed by user" in job.pystate("exceptions", job.job_id), "YARN's own words"

    savepoint = job.end()
    job.start(3, savepoint)
    job.end()
    wait_until(lambda: not [one for one in cluster.applications() if one["state"] == "RUNNING"])


@pytest.mark.parametrize("remembers", [False, True], ids=["forgets", "remembers"])
def test_a_node_manager_is_killed_and_started_again(start_cluster, start_job, remembers):
    job = start_job(start_cluster(settings={"yarn.nodemanager.recovery.enabled": str(remembers).lower()}))
    job.start(2)
    attempt, executors = job.attempt, set(job.cluster.executors())

    job.cluster.kill_node_manager()
    assert set(job.cluster.executors()) == executors, "containers live on"
    job.feed()
    job.cluster.start_node_manager()
    if remembers:
        wait_until(lambda: job.cluster.get("metrics")["clusterMetrics"]["activeNodes"] == 1)
    else:
        wait_until(lambda: job.goes_on(attempt))
    job.feed()
    if remembers:
        assert (job.attempt, set(job.cluster.executors())) == (attempt, executors)
    job.end()


def test_what_a_job_waits_for_is_said_in_words_of_yarn(start_cluster, start_job):
    job = start_job(start_cluster(memory_mb=2048))

    job.submit(2)
    told = wait_until(lambda: job.waits_for if "asked: " in job.waits_for and "RUNNING" in job.waits_for else "")
    assert "queue root.default, RUNNING; 0 of " in told
