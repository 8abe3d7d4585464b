"""Checks of a Kubernetes: the image, the API server, what our account may do there, cores, where checkpoints go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError
from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.doctor.cluster import check_address, check_checkpoints, check_executors
from pystate_cli.doctor.spark_program import SECONDS, NoAnswerError, answer_of

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

IN_PODS = "k8s://https://kubernetes.default.svc"
"""The API server, as pods know it."""
NEEDED = {
    "pods": ("create", "delete", "deletecollection", "get", "list", "watch"),
    "configmaps": ("create", "delete", "list"),
}
"""What Spark does with what, and pystate when a driver has died."""
# by the client that Spark itself has, as Spark makes it for its driver
_ASK = """
import json, os, sys
from pyspark import SparkConf, SparkContext
asked = json.load(sys.stdin)
SparkContext._ensure_initialized()
jvm = SparkContext._jvm
conf = SparkConf()
for key, value in asked["settings"].items():
    conf.set(key, value)
k8s = jvm.org.apache.spark.deploy.k8s
kinds = jvm.java.lang.Class.forName("org.apache.spark.deploy.k8s.SparkKubernetesClientFactory$ClientType$")
driver = kinds.getField("MODULE$").get(None).Driver()
namespace = asked["namespace"]
text = jvm.io.fabric8.kubernetes.client.utils.Serialization
told = {"may": {}}
try:
    client = k8s.SparkKubernetesClientFactory.createKubernetesClient(
        asked["url"], jvm.scala.Option.apply(namespace), "spark.kubernetes.authenticate", driver, conf._jconf,
        jvm.scala.Option.empty())
    told["version"] = client.getKubernetesVersion().getGitVersion()
    for kind, verbs in asked["needed"].items():
        for verb in verbs:
            what = {"namespace": namespace, "resource": kind, "verb": verb}
            api = "authorization.k8s.io/v1"
            review = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": what}}
            one = text.unmarshal(json.dumps(review))
            answer = json.loads(text.asJson(client.authorization().v1().selfSubjectAccessReview().create(one)))
            told["may"][verb + " " + kind] = (answer.get("status") or {}).get("allowed")
except Exception as error:
    told["error"] = str(error)
os.write(1, json.dumps(told).encode())
"""


def check_kubernetes(
    configuration: Configuration, ask: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> Iterator[Finding]:
    """Check that a Kubernetes is there for jobs, and that it would let them make pods.

    Args:
        configuration: The options in force.
        ask: Asks the API server; None for Spark's own client.
    """
    from pystate.common.configuration.groups.pystate_options import SparkOptions
    from pystate.runtime.spark.applications.kubernetes import (
        EXECUTOR_IMAGE_KEY,
        IMAGE_KEY,
        NAMESPACE_KEY,
        kubernetes_settings,
        namespace_of_pod,
    )
    from pystate.runtime.spark.applications.kubernetes_pods import KUBERNETES

    master = configuration.get(SparkOptions.MASTER) or (IN_PODS if namespace_of_pod() else "")
    if not master.startswith(KUBERNETES):
        text = f"{SparkOptions.MASTER.key} = {master or 'nothing'} is no Kubernetes"
        yield fail(
            "kubernetes", text, f"-D {SparkOptions.MASTER.key}=k8s://https://HOST:6443; kubectl cluster-info names it"
        )
        return
    users = configuration.spark_properties()
    try:
        settings = {**kubernetes_settings(master, users), **users}
    except ConfigurationError as error:
        yield fail("image" if error.where == IMAGE_KEY else "settings", error.message.rstrip("."), error.hint)
        settings = users
    else:
        yield ok("image", settings.get(EXECUTOR_IMAGE_KEY) or settings[IMAGE_KEY])
    namespace = settings.get(NAMESPACE_KEY, "default")
    url = master[len(KUBERNETES) :]
    url = url if url.startswith(("http://", "https://")) else f"https://{url}"
    told = (ask or _ask)({"url": url, "namespace": namespace, "settings": settings, "needed": NEEDED})
    yield from _check_answers(url, namespace, told)
    yield check_address(configuration, master, "the API server")
    yield from check_executors(configuration, "Kubernetes")
    yield check_checkpoints(configuration, "s3://BUCKET/checkpoints")


def _check_answers(url: str, namespace: str, told: Mapping[str, Any]) -> Iterator[Finding]:
    from pystate.runtime.spark.applications.kubernetes import in_short

    if "error" in told:
        last = [line.strip() for line in str(told["error"]).splitlines() if line.strip()] or ["it says nothing"]
        said = next((line for line in last if "KubernetesClientException" in line), last[0])
        why = in_short(said.partition("KubernetesClientException: ")[2] or said)
        hint = "look at the address, and at spark.kubernetes.authenticate.* or the kubeconfig"
        yield fail("kubernetes", f"{url} doesn't answer as it should: {why}", hint)
        return
    yield ok("kubernetes", f"{told.get('version') or 'a version that it does not tell'} at {url}, namespace {namespace}")
    may = told.get("may") or {}
    refused = [what for what, allowed in may.items() if allowed is False]
    if refused:
        text = f"our account may not {', '.join(refused)} in the namespace {namespace}"
        yield fail("role", text, "a Role and a RoleBinding, as deploy/helm/pystate has them")
    elif all(may.values()):
        yield ok("role", f"our account may do with pods and config maps what Spark does, in the namespace {namespace}")
    else:
        yield warn(
            "role", "the API server doesn't tell what our account may do", f"kubectl auth can-i create pods -n {namespace}"
        )


def _ask(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = answer_of(_ASK, json.dumps(asked))
    except NoAnswerError as error:
        if error.reason is None:
            return {"error": f"no answer within {SECONDS} s"}
        return {"error": f"Spark doesn't start: {error.reason}"}
    return found
