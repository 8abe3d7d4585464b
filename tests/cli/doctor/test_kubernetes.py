"""`pystate doctor --target k8s`, by what Spark's client is told, and by that client against the mock API server."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.finding import Health
from pystate_cli.doctor.kubernetes import check_kubernetes
from tests.servers import kubernetes_cluster
from tests.servers.kubernetes_cluster import ApiServer

MASTER = "k8s://host:6443"
SOUND = {
    "pystate.spark.master": MASTER,
    "spark.kubernetes.container.image": "registry.example/pystate:1",
    "spark.kubernetes.namespace": "jobs",
    "spark.executor.cores": "4",
    "spark.executor.memoryOverhead": "1g",
    "execution.checkpointing.dir": "s3://bucket/checkpoints",
    "spark.driver.host": "10.0.0.1",
}
ANSWERS = {"version": "v1.34.1", "may": {"create pods": True, "delete pods": True}}


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def findings(settings=SOUND, **answers):
    """Return what is found, by name; `answers` replace those of the API server."""
    return {one.name: one for one in check_kubernetes(Configuration(settings), lambda _: {**ANSWERS, **answers})}


def test_a_cluster_that_is_ready():
    found = findings()
    assert {one.health for one in found.values()} == {Health.OK}, found
    assert found["kubernetes"].text == "v1.34.1 at https://host:6443, namespace jobs"
    assert found["containers"].text == "a container of 2048 MB for each, 1024 of them for Python and its state"


@pytest.mark.parametrize(
    ("settings", "answers", "name", "health", "text"),
    [
        ({"pystate.spark.master": "yarn"}, {}, "kubernetes", Health.FAIL, "yarn is no Kubernetes"),
        ({"spark.kubernetes.container.image": None}, {}, "image", Health.FAIL, "needs an image"),
        ({"spark.kubernetes.namespace": "A_"}, {}, "settings", Health.FAIL, "no name of a namespace"),
        ({}, {"error": "x.KubernetesClientException: Unauthorized."}, "kubernetes", Health.FAIL, ": Unauthorized"),
        (
            {},
            {"may": {"create pods": True, "list pods": False}},
            "role",
            Health.FAIL,
            "may not list pods in the namespace jobs",
        ),
        ({}, {"may": {"create pods": None}}, "role", Health.WARN, "doesn't tell"),
        ({"parallelism.default": "4"}, {}, "executors", Health.FAIL, "2 x 4 cores are asked"),
        ({"execution.checkpointing.dir": "/home/me"}, {}, "shared storage", Health.WARN, "must see the same files"),
    ],
)
def test_what_a_cluster_lacks_is_named(settings, answers, name, health, text):
    changed = {key: value for key, value in {**SOUND, **settings}.items() if value is not None}
    found = findings(changed, **answers)[name]
    assert found.health is health
    assert text in found.text


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_sparks_own_client_asks(allowed):
    reason = kubernetes_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    api = ApiServer()
    try:
        api.allow(allowed=allowed)
        settings = {**SOUND, "pystate.spark.master": f"k8s://{api.url}"}
        found = {one.name: one for one in check_kubernetes(Configuration(settings))}
    finally:
        api.stop()
    assert found["kubernetes"].health is Health.OK, found["kubernetes"]
    assert found["role"].health is (Health.OK if allowed else Health.FAIL)
