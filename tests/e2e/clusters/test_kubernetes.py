"""`pystate run -t spark` on Kubernetes' API, as a mock server of Spark's own client has it, with pods that are processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.clusters.counting_job import CountingJob
from tests.e2e.clusters.spark_cluster import bare_python
from tests.faults.processes import descendants, kill, needs_proc
from tests.servers import kubernetes_cluster
from tests.servers.kubernetes_cluster import IMAGE, NAMESPACE, KubernetesCluster, running_kubernetes_cluster
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def start_cluster(tmp_path):
    """Start a cluster with a number of cores."""
    reason = kubernetes_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    started = []

    def start(cores: int = 16) -> KubernetesCluster:
        started.append(running_kubernetes_cluster(tmp_path / "cluster", cores=cores))
        return started[-1].__enter__()

    yield start
    for context in started:
        context.__exit__(None, None, None)


class Job(CountingJob):
    """A job that counts the words in a folder, on Kubernetes.

    Args:
        root: For its files; its checkpoints are there, too, as on a volume that all pods have.
        cluster: The Kubernetes.
    """

    def __init__(self, root: Path, cluster: KubernetesCluster) -> None:
        options = {
            "pystate.spark.master": cluster.master,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.authenticate.executor.serviceAccountName": "executors",
        }
        super().__init__(root, options, f"file:{root}", ("-pyexec", bare_python(root / "bare")))


@pytest.fixture
def start_job(tmp_path):
    """Make a job, see `Job`."""
    made: list[Job] = []

    def start(cluster: KubernetesCluster) -> Job:
        made.append(Job(tmp_path, cluster))
        return made[-1]

    yield start
    for job in made:
        job.pystate.close()


def test_a_job_loses_a_pod_and_its_driver_and_is_resumed_wider(start_cluster, start_job):
    cluster = start_cluster()
    job = start_job(cluster)
    job.start(2)
    first = job.application_id
    pod = cluster.pods()[0]
    assert pod["metadata"]["labels"]["spark-app-selector"] == first
    assert pod["spec"]["serviceAccountName"] == "executors"
    assert cluster.phases[pod["metadata"]["name"]] == ["Pending", "Running"]
    saved = job.pystate("savepoint", "-yid", first)
    assert saved.splitlines()[-1].startswith(f"{job.savepoints}/savepoint-")

    attempt = job.attempt
    cluster.kill_pod(cluster.running()[0])
    wait_until(lambda: job.goes_on(attempt))
    job.feed()
    assert job.application_id == first, "Spark asks for another pod by itself"

    attempt = job.attempt
    cluster.delete_pod(cluster.running()[0])
    wait_until(lambda: job.goes_on(attempt))
    job.feed()

    attempt, driver = job.attempt, job.pystate.driver(job.job_id)
    for pid in [*descendants(driver), driver]:
        kill(pid)
    wait_until(lambda: job.goes_on(attempt) and job.application_id != first)
    job.feed()
    applications = {one["metadata"]["labels"]["spark-app-selector"] for one in cluster.pods()}
    assert applications == {job.application_id}, "the killed driver's pods are deleted"

    savepoint = job.end()
    job.start(3, savepoint)
    job.end()
    wait_until(lambda: not cluster.pods() and not cluster.executors())


def test_what_a_job_waits_for_is_said_in_words_of_kubernetes(start_cluster, start_job):
    cluster = start_cluster(cores=5)
    job = start_job(cluster)
    job.submit(2)
    told = wait_until(lambda: job.waits_for)
    reason = "Pending: 1 (Unschedulable: 0/1 nodes are available: 1 Insufficient cpu)"
    assert f"Kubernetes runs 1 of 2 pods of {cluster.pods()[0]['metadata']['labels']['spark-app-selector']}" in told
    assert f"in the namespace {NAMESPACE} (5 cores); {reason}" in told
    cluster.cores = 10
    wait_until(lambda: job.goes_on(-1))
    job.feed()
    job.end()


def test_a_server_that_refuses_is_named(start_job, start_cluster):
    cluster = start_cluster()
    job = start_job(cluster)
    cluster.api.refuse("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", "configmaps is forbidden")
    job.submit(2)
    wait_until(lambda: job.pystate.status(job.job_id)["state"] == "FAILED")
    told = job.pystate("exceptions", job.job_id)
    assert f"Kubernetes at {cluster.master} doesn't let the application start" in told
    assert "configmaps is forbidden" in told
