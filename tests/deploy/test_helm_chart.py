"""The Helm chart: what it renders is what Kubernetes knows, and its parts fit each other, the options and the image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from py4j.java_collections import JavaMap

from pystate.common.configuration.execution_target import execution_target
from pystate.common.configuration.groups.deployment_options import ExecutionTarget
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.files.home import PystateHome
from pystate.runtime.spark.applications.kubernetes import kubernetes_settings
from pystate_cli.doctor.kubernetes import IN_PODS, NEEDED
from pystate_operator.__main__ import arguments_of as operator_arguments
from tests.servers import kubernetes_cluster
from tests.servers.kube_apiserver import needs_kube_apiserver, running_kube_apiserver
from tests.servers.kubernetes_cluster import ApiServer
from tests.waiting import LONGEST_S

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "pystate"
HELM = os.environ.get("HELM") or shutil.which("helm")
OPERATOR = ("operator.enabled=true",)
SHARED = ("shared.enabled=true", "highAvailability.storageDir=/shared/ha", "rest.tlsSecret=pystate-tls")

needs_helm = pytest.mark.skipif(
    HELM is None, reason="there is no helm here: `go install helm.sh/helm/v3/cmd/helm@v3.16.4`, and HELM=its path"
)


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *words], capture_output=True, text=True, timeout=LONGEST_S, check=False)


def rendered(*values: str) -> list[dict[str, Any]]:
    """Return the manifests for some values."""
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "team-a", str(CHART), "--namespace", "jobs", "--kube-version", "1.31.0", *sets)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(one for one in manifests if one["kind"] == kind)


def unknown_fields(node: Any, model: Any, path: str) -> Iterator[str]:
    """Yield the fields of a manifest that the model of the client has no place for."""
    if isinstance(node, list):
        for index, one in enumerate(node):
            yield from unknown_fields(one, model.get(index), f"{path}[{index}]")
    elif isinstance(node, dict) and not isinstance(model, JavaMap):
        more = model.getAdditionalProperties()
        yield from (f"{path}.{name}" for name in node if more is not None and more.containsKey(name))
        for name, one in node.items():
            if isinstance(one, (dict, list)) and not (more is not None and more.containsKey(name)):
                yield from unknown_fields(one, getattr(model, f"get{name[0].upper()}{name[1:]}")(), f"{path}.{name}")


@needs_helm
def test_the_chart_is_sound():
    done = helm("lint", "--strict", str(CHART), "--kube-version", "1.31.0")
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.slow
def test_what_it_renders_is_what_kubernetes_knows():
    reason = kubernetes_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    api = ApiServer()
    try:
        for values in ((), SHARED, OPERATOR):
            for manifest in rendered(*values):
                model = api.parsed(json.dumps(manifest))
                assert list(unknown_fields(manifest, model, manifest["kind"])) == []
        broken = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1, "targetport": 2}]}}
        assert list(unknown_fields(broken, api.parsed(json.dumps(broken)), "Service")) == [
            "Service.spec.ports[0].targetport"
        ]
    finally:
        api.stop()


@needs_helm
@needs_kube_apiserver
@pytest.mark.slow
def test_an_api_server_takes_what_it_renders(tmp_path):
    with running_kube_apiserver(tmp_path / "api") as api:
        for values in ((), SHARED, OPERATOR, (*OPERATOR, *SHARED, "jobManager.programs=programs")):
            assert [api.refusal(one) for one in rendered(*values)] == [""] * len(rendered(*values))
        broken = of_kind(rendered(*OPERATOR), "Deployment")
        broken["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
        assert 'unknown field "spec.template.spec.containers[0].volumeMount"' in api.refusal(broken)


@needs_helm
@pytest.mark.parametrize("values", [(), SHARED, ("jobManager.replicas=1", "highAvailability.storageDir=")])
def test_the_configuration_is_one_that_jobs_start_with(values, tmp_path):
    text = of_kind(rendered(*values), "ConfigMap")["data"]["flink-conf.toml"]
    (tmp_path / "flink-conf.toml").write_text(text)
    loaded = load_configuration(str(tmp_path), {}, home=PystateHome(tmp_path / "home"))
    assert loaded.notices == []
    configuration = loaded.configuration
    assert execution_target(configuration) is ExecutionTarget.SPARK
    settings = kubernetes_settings(IN_PODS, configuration.spark_properties(), {}, tmp_path)
    assert settings["spark.kubernetes.namespace"] == "jobs"


@needs_helm
def test_the_role_has_what_spark_does():
    rules = of_kind(rendered(), "Role")["rules"]
    allowed = {kind: set(rule["verbs"]) for rule in rules for kind in rule["resources"]}
    assert {kind: set(verbs) - allowed[kind] for kind, verbs in NEEDED.items()} == dict.fromkeys(NEEDED, set())


@needs_helm
@pytest.mark.parametrize("values", [(), SHARED])
def test_its_parts_fit_each_other_and_the_image(values):
    manifests = rendered(*values)
    stateful = of_kind(manifests, "StatefulSet")["spec"]
    template, pod = stateful["template"], stateful["template"]["spec"]
    labels = template["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"].items() <= labels.items()
    assert of_kind(manifests, "Service")["spec"]["selector"].items() <= labels.items()
    assert stateful["serviceName"] == of_kind(manifests, "Service")["metadata"]["name"]
    binding = of_kind(manifests, "RoleBinding")
    accounts = [one["metadata"]["name"] for one in manifests if one["kind"] == "ServiceAccount"]
    assert {pod["serviceAccountName"]} == {one["name"] for one in binding["subjects"]}
    assert pod["serviceAccountName"] in accounts

    volumes = {one["name"] for one in [*pod["volumes"], *[one["metadata"] for one in stateful["volumeClaimTemplates"]]]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]

    recipe = (DEPLOY / "Containerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}" in recipe
    probed = {
        tuple(pod["containers"][0][f"{kind}Probe"]["exec"]["command"]) for kind in ("startup", "readiness", "liveness")
    }
    assert probed == {("/opt/pystate/probe", "/config")}
    assert "/opt/pystate/probe" in recipe

    configuration = of_kind(manifests, "ConfigMap")["data"]["flink-conf.toml"]
    executors = next(
        one for one in manifests if one["metadata"]["name"] == "team-a-executors" and one["kind"] != "ServiceAccount"
    )
    for key, value in executors["spec"]["podSelector"]["matchLabels"].items():
        assert f'"spark.kubernetes.executor.label.{key}" = "{value}"' in configuration
    assert 'serviceAccountName" = "team-a-executors"' in configuration
    assert "team-a-executors" in accounts


@needs_helm
@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        (OPERATOR, []),
        ((*OPERATOR, *SHARED, "jobManager.programs=programs"), []),
        (
            (*OPERATOR, "jobManager.replicas=1", "highAvailability.storageDir="),
            ["--jobmanager=team-a-0.team-a.jobs.svc.cluster.local:8081"],
        ),
    ],
)
def test_the_operator_reaches_the_job_manager_and_may_do_little(values, arguments):
    manifests = rendered(*values)
    named = {(one["kind"], one["metadata"]["name"]): one for one in manifests}
    deployment = named["Deployment", "team-a-operator"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert deployment["strategy"] == {"type": "Recreate"}
    policy = named["NetworkPolicy", "team-a"]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert policy.items() <= labels.items()
    assert not named["Service", "team-a"]["spec"]["selector"].items() <= labels.items()
    assert pod["containers"][0]["args"][3:] == arguments
    parsed = vars(operator_arguments(pod["containers"][0]["args"][1:]))
    assert parsed["interval"] == 10

    volumes = {one["name"] for one in pod["volumes"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        assert container["securityContext"]["readOnlyRootFilesystem"]

    role = named["RoleBinding", "team-a-operator"]
    assert role["subjects"][0]["name"] == pod["serviceAccountName"] == "team-a-operator"
    assert [one["resources"] for one in named["Role", "team-a-operator"]["rules"]] == [
        ["pystatejobs"],
        ["pystatejobs/status"],
        ["events"],
    ]
    mounts = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert any(one["mountPath"] == "/programs" for one in mounts) is ("jobManager.programs=programs" in values)


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("highAvailability.storageDir=",), "jobManager.replicas above 1 needs highAvailability.storageDir"),
        (("checkpoints.dir=/tmp/x",), "checkpoints.dir"),
        (("jobManager.replica=2",), "replica"),
        (("operator.enabled=true", "operator.replicas=2"), "replicas"),
    ],
)
def test_values_that_can_not_work_are_refused(values, said):
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "team-a", str(CHART), "--kube-version", "1.31.0", *sets)
    assert done.returncode != 0
    assert said in done.stderr
