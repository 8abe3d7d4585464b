"""The operator as a process: kopf, a small API server over HTTP, a job manager with drivers that need no Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pystate_operator.custom_resource import API_VERSION, GROUP, KIND, definition
from pystate_operator.jobs import job_id
from pystate_operator.reconciler import job_prefix
from tests.pystate_operator.operator_process import running_operator
from tests.servers.api_server import running_api_server
from tests.servers.kube_apiserver import needs_kube_apiserver, running_kube_apiserver
from tests.waiting import LONGEST_S, wait_until


@pytest.fixture(params=["ours", pytest.param("kubernetes", marks=needs_kube_apiserver)])
def api(request, tmp_path):
    ours = request.param == "ours"
    with running_api_server(definition()) if ours else running_kube_apiserver(tmp_path / "api") as server:
        yield server


@pytest.fixture
def operator(api, manager, tmp_path):
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
    with running_operator(manager.home.root, kubeconfig, tmp_path / "operator.log") as started:
        yield started


def make(api, manager, name="count", *arguments, **more):
    job = {"program": str(manager.job_file), "args": list(arguments), **more}
    head = {"apiVersion": f"{GROUP}/{API_VERSION}", "kind": KIND}
    return api.create({**head, "metadata": {"name": name}, "spec": {"job": job}})


def lifecycle(api, name="count"):
    return (api.get(name).get("status") or {}).get("lifecycleState")


def runs(api, job, name="count"):
    told = (api.get(name).get("status") or {}).get("jobStatus", {})
    return (told.get("jobId"), told.get("state")) == (job, "RUNNING")


@pytest.mark.slow
def test_a_job_comes_goes_through_a_suspension_and_goes_with_its_resource(api, manager, operator):
    made = make(api, manager)
    first = job_id(f"{job_prefix(made)}-1")
    wait_until(lambda: lifecycle(api) == "DEPLOYED")
    wait_until(lambda: runs(api, first))
    assert api.get("count")["metadata"]["finalizers"] == ["pystate.dev/jobs"]
    status, told = manager.request("GET", f"/pystate/jobs/{first}/submission")
    settings = {one["key"]: one["value"] for one in told["settings"]}
    assert (status, told["job_name"]) == (200, f"{job_prefix(made)}-1")
    assert settings["execution.checkpointing.externalized-checkpoint-retention"] == "RETAIN_ON_CANCELLATION"

    api.change("count", {"job": {"state": "suspended", "upgradeMode": "stateless"}})
    wait_until(lambda: lifecycle(api) == "SUSPENDED")
    assert manager.state(first) == "CANCELED"
    api.change("count", {"job": {"state": "running"}})
    second = job_id(f"{job_prefix(made)}-2")
    wait_until(lambda: lifecycle(api) == "DEPLOYED")
    wait_until(lambda: runs(api, second))

    api.delete("count")
    wait_until(lambda: api.get("count") is None)
    assert manager.state(second) == "CANCELED"
    wait_until(lambda: {"Deployed", "Suspended", "Deleting"} <= api.reasons())
    assert operator.stop() == 0


@pytest.mark.slow
def test_an_operator_that_is_killed_goes_on_also_with_a_deletion(api, manager, operator):
    made = make(api, manager, "count", "--cancel", "2")
    first = job_id(f"{job_prefix(made)}-1")
    wait_until(lambda: lifecycle(api) == "DEPLOYED")
    wait_until(lambda: runs(api, first))
    operator.kill()
    api.delete("count")
    operator.start()
    wait_until(lambda: manager.state(first) == "CANCELLING")
    operator.kill()
    assert api.get("count") is not None
    operator.start()
    wait_until(lambda: api.get("count") is None)
    assert manager.state(first) == "CANCELED"
    jobs = manager.request("GET", "/jobs")[1]["jobs"]
    assert [one["id"] for one in jobs] == [first]


@pytest.mark.slow
def test_what_can_not_be_is_said_in_conditions(api, manager, operator):
    made = make(api, manager)
    wait_until(lambda: runs(api, job_id(f"{job_prefix(made)}-1")))
    api.change("count", {"flinkConfiguration": {"state.backend.typ": "rocksdb"}})
    wait_until(lambda: "error" in api.get("count")["status"])
    found = {one["type"]: one for one in api.get("count")["status"]["conditions"]}
    assert found["Accepted"]["status"] == "False"
    assert "state.backend.typ" in found["Accepted"]["message"]
    assert "state.backend.type" in found["Accepted"]["message"], "what was meant"
    assert manager.request("GET", "/jobs/overview")[1]["jobs"][0]["state"] == "RUNNING"


def test_without_a_namespace_it_says_what_to_do(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pystate_operator"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        env={"PYSTATE_HOME": str(tmp_path), "PATH": ""},
        check=False,
    )
    assert done.returncode == 1
    assert "try: pystate-operator --namespace NAMESPACE" in done.stderr
