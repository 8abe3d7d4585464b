"""Kubernetes as Spark's master: its settings, and what it says of an application's pods, as its API writes it."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, JobExecutionError
from pystate.runtime.spark.applications.application_state import ApplicationState, application_state, is_blocked
from pystate.runtime.spark.applications.kubernetes import (
    delete_earlier_pods,
    kubernetes_settings,
    kubernetes_start,
    look_at_kubernetes,
)
from pystate.runtime.spark.applications.kubernetes_pods import app_name_label, view_of
from tests.servers import kubernetes_cluster
from tests.servers.kubernetes_cluster import ApiServer

MASTER = "k8s://https://host:6443"
IMAGE = {"spark.kubernetes.container.image": "registry/pystate:1"}
APPLICATION = "spark-1"


def pod(name="exec-1", phase="Pending", container=None, **status):
    """Return a pod as the API describes it."""
    statuses = {} if container is None else {"containerStatuses": [{"name": "spark", "state": container}]}
    return {"metadata": {"name": name}, "status": {"phase": phase, **statuses, **status}}


UNSCHEDULABLE = pod(
    conditions=[
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.\n preemption: none.",
        }
    ]
)


@pytest.mark.parametrize(
    ("pods", "said", "full", "given"),
    [
        ([], "has no pod of spark-1 in the namespace jobs, where 2 are asked for", False, 0),
        (
            [{"metadata": {"name": "new"}}],
            "runs 0 of 2 pods of spark-1 in the namespace jobs (4 cores); Pending: 1",
            False,
            1,
        ),
        (
            [pod(container={"waiting": {"reason": "ContainerCreating"}})],
            "Pending: 1 (ContainerCreating)",
            False,
            1,
        ),
        (
            [pod(container={"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})],
            "Pending: 1 (ImagePullBackOff: not found)",
            True,
            0,
        ),
        (
            [UNSCHEDULABLE, pod("exec-2", "Running", {"running": {}})],
            "runs 1 of 2 pods of spark-1 in the namespace jobs (4 cores); "
            "Pending: 1 (Unschedulable: 0/3 nodes are available: 3 Insufficient cpu. preemption: none)",
            True,
            1,
        ),
        (
            [pod(phase="Failed", container={"terminated": {"reason": "OOMKilled", "exitCode": 137}})],
            "Failed: 1 (OOMKilled (exit code 137))",
            False,
            0,
        ),
        ([pod(phase="Failed", reason="Evicted", message="The node was low on memory.")], "(Evicted: The node", False, 0),
    ],
)
def test_what_a_job_waits_for_is_said_in_words_of_kubernetes(pods, said, full, given):
    view = view_of("jobs", 2, pods)
    assert said in view.cores_sentence(APPLICATION, 4)
    assert view.is_full is full
    assert view.given_to(APPLICATION) == given


def test_an_application_without_pods_is_not_lost_before_its_time():
    view = view_of("jobs", 2, [])
    assert application_state(APPLICATION, 0, view, timed_out=False, restart=True) is ApplicationState.WAITS
    assert application_state(APPLICATION, 0, view, timed_out=True, restart=True) is ApplicationState.LOST
    full = view_of("jobs", 2, [UNSCHEDULABLE])
    assert application_state(APPLICATION, 0, full, timed_out=True, restart=True) is ApplicationState.TOO_FEW
    assert is_blocked(APPLICATION, full)


@pytest.mark.parametrize(
    ("users", "where"),
    [
        ({}, "spark.kubernetes.container.image"),
        ({**IMAGE, "spark.kubernetes.namespace": "Jobs_1"}, "spark.kubernetes.namespace"),
        (
            {**IMAGE, "spark.kubernetes.authenticate.driver.serviceAccountName": "a"},
            "spark.kubernetes.authenticate.driver.serviceAccountName",
        ),
    ],
)
def test_a_setting_that_can_not_work_is_named(users, where, tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        kubernetes_settings(MASTER, users, {}, tmp_path)
    assert raised.value.where == where


def test_a_driver_in_a_pod_owns_its_executors(tmp_path):
    (tmp_path / "namespace").write_text("jobs\n")
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "pystate-0"}
    own = kubernetes_settings(MASTER, IMAGE, inside, tmp_path)
    assert own["spark.kubernetes.namespace"] == "jobs"
    assert own["spark.kubernetes.driver.pod.name"] == "pystate-0"
    elsewhere = kubernetes_settings(MASTER, {**IMAGE, "spark.kubernetes.namespace": "others"}, inside, tmp_path)
    assert "spark.kubernetes.driver.pod.name" not in elsewhere, "an owner is in the same namespace"
    outside = kubernetes_settings(MASTER, IMAGE, {"HOSTNAME": "laptop"}, tmp_path)
    assert outside == {
        "spark.executor.failuresValidityInterval": "1h",
        "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    }


def test_the_label_of_a_job_is_the_one_that_spark_gives_its_pods():
    assert app_name_label("pystate 0123456789abcdef0123456789abcdef") == "pystate-0123456789abcdef0123456789abcdef"


def test_what_the_api_server_refuses_is_one_sentence():
    said = (
        "External scheduler cannot be instantiated\nCaused by: io.fabric8.kubernetes.client.KubernetesClientException: "
        "Failure executing: POST at: https://host:6443/api/v1/namespaces/jobs/configmaps. Message: configmaps is forbidden: "
        'User "a" cannot create. Received status: Status(apiVersion=v1, code=403).\n\tat io.fabric8'
    )
    with pytest.raises(JobExecutionError) as raised, kubernetes_start(Configuration({"pystate.spark.master": MASTER})):
        raise RuntimeError(said)
    assert raised.value.message == (
        f"Kubernetes at {MASTER} doesn't let the application start: https://host:6443/api/v1/namespaces/jobs/configmaps: "
        'configmaps is forbidden: User "a" cannot create.'
    )


def test_other_masters_tell_of_their_failures_themselves():
    with pytest.raises(RuntimeError), kubernetes_start(Configuration({"pystate.spark.master": "yarn"})):
        raise RuntimeError("io.fabric8.kubernetes.client.KubernetesClientException: x")


class Session:
    """A session of Spark as far as its pods go: its client is Spark's own, and asks the mock API server."""

    appName = "pystate 0123"
    applicationId = "spark-2"

    def __init__(self, api: ApiServer) -> None:
        self._jvm = api.jvm
        self._client = api.server.createClient()
        self.sparkContext = self._jsc = self

    def getConf(self):
        return {"spark.kubernetes.namespace": "jobs", "spark.executor.instances": "3"}

    def sc(self):
        return self

    def schedulerBackend(self):
        return self

    def kubernetesClient(self):
        return self._client


@pytest.fixture
def api():
    reason = kubernetes_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    server = ApiServer()
    yield server
    server.stop()


def make(api, kind, name, application, job="pystate-0123"):
    labels = {"spark-role": "executor", "spark-app-selector": application, "spark-app-name": job}
    body = {"metadata": {"name": name, "labels": labels}}
    made = api.call("POST", f"/api/v1/namespaces/jobs/{kind.lower()}s", {"apiVersion": "v1", "kind": kind, **body})
    assert made.get("status") == ({"phase": "Pending"} if kind == "Pod" else None), "as a real server has it from the start"


def names(api, kind):
    return {one["metadata"]["name"] for one in api.call("GET", f"/api/v1/namespaces/jobs/{kind.lower()}s")["items"]}


@pytest.mark.slow
def test_pods_are_looked_at_and_those_of_earlier_drivers_are_deleted(api):
    for name, application in (("old-1", "spark-1"), ("old-2", "spark-1"), ("new-1", "spark-2")):
        make(api, "Pod", name, application)
        make(api, "ConfigMap", f"map-{name}", application)
    make(api, "Pod", "other-job", "spark-9", "pystate-4567")
    session = Session(api)
    view = look_at_kubernetes(session)
    assert view is not None
    assert (view.namespace, view.asked, [one.name for one in view.pods]) == ("jobs", 3, ["new-1"])

    said = []
    delete_earlier_pods(session, said.append)
    assert said == []
    assert names(api, "Pod") == {"new-1", "other-job"}
    assert names(api, "ConfigMap") == {"map-new-1"}


@pytest.mark.slow
def test_a_driver_that_may_not_delete_says_so(api):
    api.refuse(
        "GET", "/api/v1/namespaces/jobs/pods?labelSelector=spark-role%3Dexecutor%2Cspark-app-name%3Dpystate-0123", "no"
    )
    said = []
    delete_earlier_pods(Session(api), said.append)
    assert len(said) == 1
    assert said[0].startswith("WARNING: Pods of earlier drivers stay in the namespace jobs: ")
