"""Kubernetes as Spark's master: settings of a session, its pods, and those that an earlier driver of the job has left there.

The API server is asked by the client that Spark itself has, in the driver's JVM: so who we are, certificates, tokens and a
kubeconfig are as for Spark's own requests.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError, JobExecutionError
from pystate.runtime.spark.applications.kubernetes_pods import (
    APPLICATION_LABEL,
    KUBERNETES,
    NAME_LABEL,
    KubernetesView,
    app_name_label,
    view_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMAGE_KEY = "spark.kubernetes.container.image"
EXECUTOR_IMAGE_KEY = "spark.kubernetes.executor.container.image"
NAMESPACE_KEY = "spark.kubernetes.namespace"
DRIVER_POD_KEY = "spark.kubernetes.driver.pod.name"
DRIVER_ACCOUNT_KEY = "spark.kubernetes.authenticate.driver.serviceAccountName"
FAILURES_KEY = "spark.executor.failuresValidityInterval"
RECOVERY_MODE_KEY = "spark.kubernetes.allocation.recoveryMode.enabled"
INSTANCES_KEY, _INSTANCES = "spark.executor.instances", "2"
_DEFAULT_NAMESPACE = "default"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REFUSED = re.compile(r"KubernetesClientException: (.*)")
_CALLED = re.compile(r"\bat: (https?://\S+?)\. Message: (.*)")
_STATUS = " Received status: "


def kubernetes_settings(
    master: str, users: Mapping[str, str], environment: Mapping[str, str] = os.environ, account: Path = _ACCOUNT
) -> dict[str, str]:
    """Return the settings of a session on Kubernetes, which the user's own override.

    Args:
        master: Spark's master.
        users: The user's Spark settings.
        environment: The variables, which in a pod say so.
        account: Where a pod has its service account.

    Raises:
        ConfigurationError: A setting is missing, or none of Kubernetes'.
    """
    if EXECUTOR_IMAGE_KEY not in users and IMAGE_KEY not in users:
        message = f"{SparkOptions.MASTER.key} = {master} needs an image for the pods of executors."
        raise ConfigurationError(message, where=IMAGE_KEY, hint=f"-D {IMAGE_KEY}=REGISTRY/pystate:TAG")
    if DRIVER_ACCOUNT_KEY in users:
        message = f"{DRIVER_ACCOUNT_KEY} has no effect: the driver runs in the job manager's pod, with the account of that."
        hint = (
            "set serviceAccountName of that pod; spark.kubernetes.authenticate.executor.serviceAccountName is for executors"
        )
        raise ConfigurationError(message, where=DRIVER_ACCOUNT_KEY, hint=hint)
    settings = {
        # Spark ends an application after as many lost executors as it has, twice: within an hour, not ever since
        FAILURES_KEY: "1h",
        # else each executor that comes after one is killed for its memory runs one task at once: slots would hold all cores
        RECOVERY_MODE_KEY: "false",
    }
    own = namespace_of_pod(environment, account)
    namespace = users.get(NAMESPACE_KEY, own)
    if namespace is not None:
        if not _NAME.fullmatch(namespace):
            message = f"{NAMESPACE_KEY} = {namespace} is no name of a namespace."
            raise ConfigurationError(message, where=NAMESPACE_KEY, hint="kubectl get namespaces")
        settings[NAMESPACE_KEY] = namespace
    if own is not None and namespace == own:
        # the owner of the executors' pods: Kubernetes deletes them with it
        settings[DRIVER_POD_KEY] = environment.get("HOSTNAME") or socket.gethostname()
    return settings


def namespace_of_pod(environment: Mapping[str, str] = os.environ, account: Path = _ACCOUNT) -> str | None:
    """Return the namespace of the pod that this process runs in; None outside of pods, and in those without an account."""
    file = account / "namespace"
    if "KUBERNETES_SERVICE_HOST" not in environment or not file.is_file():
        return None
    return file.read_text("utf-8").strip() or None


def look_at_kubernetes(spark: SparkSession) -> KubernetesView | None:
    """Return what Kubernetes says of a session's executors; None if it can't be asked."""
    try:
        context = spark.sparkContext
        conf = context.getConf()
        namespace = str(conf.get(NAMESPACE_KEY, _DEFAULT_NAMESPACE))
        listed = _pods(spark, namespace).withLabel(APPLICATION_LABEL, str(context.applicationId)).list()
        text = str(context._jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson(listed))  # type: ignore[union-attr]  # noqa: SLF001
        return view_of(
            namespace, int(conf.get(INSTANCES_KEY, _INSTANCES) or _INSTANCES), json.loads(text).get("items") or []
        )
    except Exception:  # noqa: BLE001 - py4j has several classes for what the JVM and the server refuse
        return None


def delete_earlier_pods(spark: SparkSession, say: Callable[[str], object]) -> None:
    """Delete the executors' pods of a job's earlier drivers, which nobody deletes where a driver was killed.

    Args:
        spark: The session of the job's present driver.
        say: Is called with a sentence for users where Kubernetes refuses.
    """
    context = spark.sparkContext
    namespace = str(context.getConf().get(NAMESPACE_KEY, _DEFAULT_NAMESPACE))
    label = app_name_label(str(context.appName))
    try:
        own = _pods(spark, namespace).withLabel(NAME_LABEL, label)
        listed = own.list().getItems()
        labels = [listed.get(index).getMetadata().getLabels() for index in range(listed.size())]
        found = {str(one.get(APPLICATION_LABEL)) for one in labels} - {str(context.applicationId)}
        maps = _client(spark).configMaps().inNamespace(namespace)
        for application in sorted(found):
            own.withLabel(APPLICATION_LABEL, application).delete()
            maps.withLabel(APPLICATION_LABEL, application).delete()
    except Exception as error:  # noqa: BLE001 - py4j has several classes for what the server refuses
        why = _REFUSED.search(str(error))
        say(f"WARNING: Pods of earlier drivers stay in the namespace {namespace}: {why[1] if why else error}")


@contextmanager
def kubernetes_start(configuration: Configuration) -> Iterator[None]:
    """Tell in one sentence what the API server answers to an application that doesn't start; nothing on other masters.

    Args:
        configuration: The options in force.

    Raises:
        JobExecutionError: It answers nothing, or refuses.
    """
    master = configuration.get(SparkOptions.MASTER) or ""
    if not master.startswith(KUBERNETES):
        yield
        return
    try:
        yield
    except Exception as error:  # py4j and PySpark have many classes for a Spark that doesn't start
        why = _REFUSED.search(str(error))
        if why is None:
            raise
        message = f"Kubernetes at {master} doesn't let the application start: {in_short(why[1])}."
        raise JobExecutionError(message, where=SparkOptions.MASTER.key, hint="pystate doctor --target k8s") from error


def in_short(said: str) -> str:
    """Return what the client of Kubernetes says of a refused request, without what nobody asked for."""
    called = _CALLED.search(said)
    return (f"{called[1]}: {called[2]}" if called else said).partition(_STATUS)[0].strip().rstrip(".")


def _client(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc().schedulerBackend().kubernetesClient()  # noqa: SLF001 - there is no public way to it


def _pods(spark: SparkSession, namespace: str) -> Any:
    return _client(spark).pods().inNamespace(namespace).withLabel("spark-role", "executor")
