"""A Kubernetes of tests: the mock API server of the client that Spark has, and a kubelet that runs pods as processes.

The server keeps what it is given and answers lists and watches (its CRUD mode), with new pods Pending; it checks neither
schemas nor roles. What a scheduler and a garbage collector do with pods is done by the kubelet here: the cores of a node,
owners that are gone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from pystate.common.processes.java import find_java
from tests.faults.processes import command_of, is_gone, kill, marked
from tests.servers.places import SERVERS
from tests.waiting import LONGEST_S, wait_until

JARS = SERVERS / "kubernetes"
SPARK_HOME = Path(pyspark.__file__).parent
NAMESPACE = "jobs"
IMAGE = "registry.example/pystate:1"
ENTRYPOINT = Path(__file__).parents[2] / "deploy" / "entrypoint.sh"
"""Of our image: what a pod runs is run by it."""
_MARK = "PYSTATE_TESTS_KUBERNETES"
"""A variable of all processes of pods, whose Python workers outlive them for a moment."""
_NOT_OF_PODS = ("PYTHONPATH", "PYSTATE_HOME", "PYSTATE_CONF_DIR", "SPARK_LOCAL_IP", "PYSPARK_PYTHON")
_ADDRESS = "127.0.0.1"
_FIELDS = {"status.podIP": _ADDRESS, "status.hostIP": _ADDRESS, "spec.nodeName": "node-1"}
_LOOK_EVERY_S = 0.2
_DISPATCHER = """
import io.fabric8.kubernetes.api.model.*;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.fabric8.mockwebserver.http.*;

/** Gives new pods the phase that a real server gives them before anybody sees them. */
public class PendingPods extends io.fabric8.kubernetes.client.server.mock.KubernetesMixedDispatcher {
    public PendingPods(java.util.Map responses) { super(responses); }

    public MockResponse dispatch(RecordedRequest asked) {
        if (!asked.getMethod().equals("POST") || !asked.getPath().endsWith("/pods")) return super.dispatch(asked);
        Pod pod = (Pod) Serialization.unmarshal(asked.getUtf8Body(), Pod.class);
        PodStatus status = new PodStatus();
        status.setPhase("Pending");
        pod.setStatus(status);
        Buffer body = new Buffer(Serialization.asJson(pod).getBytes(java.nio.charset.StandardCharsets.UTF_8));
        return super.dispatch(
            new RecordedRequest(asked.getHttpVersion(), asked.method(), asked.getPath(), asked.getHeaders(), body));
    }
}
"""
_GRACE_S = 5.0


def missing() -> str | None:
    """Say why there is no such server here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no Kubernetes API server here: run `make servers`"
    return None


class ApiServer:
    """The mock API server, in a JVM of its own."""

    def __init__(self) -> None:
        java = find_java()
        port, token, self._process = launch_gateway(
            classpath=f"{JARS}/*{os.pathsep}{SPARK_HOME}/jars/*",
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            java_path=str(java.executable),
            javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        jvm = self._gateway.jvm
        mock, web = jvm.io.fabric8.kubernetes.client.server.mock, jvm.io.fabric8.mockwebserver
        responses = jvm.java.util.HashMap()
        dispatcher = self._dispatcher(responses)
        self.server = mock.KubernetesMockServer(web.Context(), web.MockWebServer(), responses, dispatcher, False)
        self.server.init(jvm.java.net.InetAddress.getByName(_ADDRESS), 0)
        self.url = f"http://{_ADDRESS}:{self.server.getPort()}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def _dispatcher(self, responses: Any) -> Any:
        """Return what answers requests, compiled by the compiler that Spark has."""
        compiler = self._gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_DISPATCHER)
        (constructor,) = compiler.getClassLoader().loadClass("PendingPods").getConstructors()
        arguments = self._gateway.new_array(self._gateway.jvm.Object, 1)
        arguments[0] = responses
        return constructor.newInstance(arguments)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, a change as a merge patch; return its answer, None where there is no such thing."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        url, headers = f"{self.url}{path}", {"content-type": kind}
        request = urllib.request.Request(url, method=method, data=data, headers=headers)  # noqa: S310 - http
        try:
            with self._opener.open(request, timeout=LONGEST_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except HTTPError as error:
            with error:
                if error.code in (404, 409):  # gone meanwhile
                    return None
                raise

    @property
    def jvm(self) -> Any:
        """The JVM that it runs in, which has Spark's classes."""
        return self._gateway.jvm

    def parsed(self, manifest: str) -> Any:
        """Return a manifest as an object of the client's model."""
        return self.jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(manifest)

    def say(self, path: str, text: str) -> None:
        """Answer a text to each GET of a path from now on."""
        self.server.expect().get().withPath(path).andReturn(200, text).always()

    def refuse(self, method: str, path: str, why: str) -> None:
        """Refuse all requests of a kind from now on, as a server does to whom no role gives them."""
        status = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "reason": "Forbidden",
            "message": why,
            "code": 403,
        }
        getattr(self.server.expect(), method.lower())().withPath(path).andReturn(403, json.dumps(status)).always()

    def allow(self, *, allowed: bool) -> None:
        """Answer each question whether an account may do something, as authorization.k8s.io does."""
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
        answer = json.dumps({**kind, "status": {"allowed": allowed}})
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        self.server.expect().post().withPath(path).andReturn(201, answer).always()

    def stop(self) -> None:
        """End it."""
        self._gateway.close()
        self._process.kill()
        self._process.wait(LONGEST_S)


class KubernetesCluster:
    """An API server, and one node with a kubelet.

    Args:
        root: For the folders and the logs of pods.
        cores: What pods on the node may ask for altogether.

    Attributes:
        phases: The phases that each pod has been in, in their order.
        logs: The log of each pod that there has been.
    """

    def __init__(self, root: Path, *, cores: int = 16) -> None:
        root.mkdir(parents=True)
        self.root = root
        self.cores = cores
        self.api = ApiServer()
        self.phases: dict[str, list[str]] = defaultdict(list)
        self.logs: dict[str, Path] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._deleted: dict[str, float] = {}
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    @property
    def master(self) -> str:
        """What pystate.spark.master is to be."""
        return f"k8s://{self.api.url}"

    def start(self) -> KubernetesCluster:
        """Start the kubelet."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End it all, with all processes of pods."""
        self._over.set()
        self._thread.join(LONGEST_S)
        wait_until(self._end_processes)
        self.api.stop()
        assert self._failure is None, self._failure

    def pods(self, role: str = "executor") -> list[dict[str, Any]]:
        """Return the pods of a role of Spark's."""
        return [one for one in self._all_pods() if one["metadata"].get("labels", {}).get("spark-role") == role]

    def running(self) -> list[str]:
        """Return the names of the executors' pods that run."""
        return [one["metadata"]["name"] for one in self.pods() if one.get("status", {}).get("phase") == "Running"]

    def make_pod(self, name: str, command: list[str], **spec: Any) -> None:
        """Make a pod of the tests' own."""
        container = {"name": "main", "image": IMAGE, "args": command}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.api.call("POST", self._path(NAMESPACE), pod)

    def delete_pod(self, name: str) -> None:
        """Delete a pod, as `kubectl delete pod` does: it is there until the kubelet has ended its process."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        marked = {"deletionTimestamp": now, "finalizers": ["kubelet.tests/process"]}
        self.api.call("PATCH", self._path(NAMESPACE, name), {"metadata": marked})

    def kill_pod(self, name: str) -> None:
        """Kill the process of a pod, as the kernel does where memory is short."""
        kill(self._processes[name].pid)

    def process_of(self, name: str) -> int:
        """Return the process of a pod."""
        return self._processes[name].pid

    def processes(self) -> list[int]:
        """Return the processes of all pods, with those that they have started."""
        return marked(_MARK, self.root)

    def executors(self) -> list[int]:
        """Return the JVMs of Spark's executors."""
        return [pid for pid in self.processes() if "KubernetesExecutorBackend" in command_of(pid)]

    def _all_pods(self) -> list[dict[str, Any]]:
        return list((self.api.call("GET", "/api/v1/pods") or {}).get("items", []))

    @staticmethod
    def _path(namespace: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{namespace}/pods{name and '/'}{name}"

    def _run(self) -> None:
        try:
            while not self._over.wait(_LOOK_EVERY_S):
                self._look()
        except BaseException as error:  # noqa: BLE001 - the test's thread tells
            self._failure = error

    def _look(self) -> None:
        pods = {one["metadata"]["name"]: one for one in self._all_pods()}
        uids = {one["metadata"]["uid"] for one in pods.values()}
        used = sum(_cores(pod) for name, pod in pods.items() if _phase(pod) == "Running")
        for name, pod in pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                ended = name not in self._processes or self._processes[name].poll() is not None
                if ended and _phase(pod) == "Running":
                    self._note_end(name, pod)
                elif ended:
                    path = self._path(pod["metadata"]["namespace"], name)
                    self.api.call("PATCH", path, {"metadata": {"finalizers": None}})
                continue
            if any(one["kind"] == "Pod" and one["uid"] not in uids for one in pod["metadata"].get("ownerReferences", [])):
                self.api.call("DELETE", self._path(pod["metadata"]["namespace"], name))
                continue
            if not self.phases[name]:
                self.phases[name].append(_phase(pod))
            if _phase(pod) == "Pending" and used + _cores(pod) <= self.cores:
                used += _cores(pod)
                self._start(name, pod)
            elif _phase(pod) == "Pending" and "conditions" not in pod["status"]:
                why = "0/1 nodes are available: 1 Insufficient cpu."
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
                self._set(pod, "Pending", conditions=[condition])
            elif _phase(pod) == "Running" and self._processes[name].poll() is not None:
                self._note_end(name, pod)
        for name, process in self._processes.items():
            ends = name not in pods or "deletionTimestamp" in pods[name]["metadata"]
            if ends and process.poll() is None:
                if name not in self._deleted:
                    self._deleted[name] = time.monotonic()
                    process.send_signal(signal.SIGTERM)
                elif time.monotonic() - self._deleted[name] >= _GRACE_S:
                    process.send_signal(signal.SIGKILL)

    def _set(self, pod: dict[str, Any], phase: str, **more: Any) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if self.phases[name][-1:] != [phase]:
            self.phases[name].append(phase)
        self.api.call("PATCH", f"{self._path(namespace, name)}/status", {"status": {"phase": phase, **more}})

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        container = pod["spec"]["containers"][0]
        environment = {key: value for key, value in os.environ.items() if key not in _NOT_OF_PODS}
        environment |= {"SPARK_HOME": str(SPARK_HOME), "JAVA_HOME": str(find_java().executable.resolve().parents[1])}
        environment[_MARK] = str(self.root)
        mounts = {one["mountPath"]: str(folder / one["name"]) for one in container.get("volumeMounts", [])}
        for one in container.get("env", []):
            field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            value = name if field == "metadata.name" else _FIELDS.get(field, one.get("value") or "")
            # there is no mount here: what is said to be at a volume is at its folder
            environment[one["name"]] = mounts.get(value, value)
        for path in mounts.values():
            Path(path).mkdir(exist_ok=True)
        self.logs[name] = self.root / f"{name}.log"
        command = [*container.get("command", ["/bin/sh", str(ENTRYPOINT)]), *container.get("args", [])]
        with self.logs[name].open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=folder
            )
        state = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
        addresses = {"podIP": _ADDRESS, "hostIP": _ADDRESS, "podIPs": [{"ip": _ADDRESS}]}
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
        statuses = [_container_status(container, state, ready=True)]
        self._set(pod, "Running", conditions=ready, containerStatuses=statuses, **addresses)

    def _note_end(self, name: str, pod: dict[str, Any]) -> None:
        code = self._processes[name].poll() or 0
        code = 128 - code if code < 0 else code
        now = pod["metadata"]["creationTimestamp"]
        reason = "Completed" if code == 0 else "OOMKilled" if code == 128 + signal.SIGKILL else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
        statuses = [_container_status(pod["spec"]["containers"][0], state, ready=False)]
        namespace = pod["metadata"]["namespace"]
        self.api.say(f"{self._path(namespace, name)}/log", self.logs[name].read_text("utf-8", "replace"))
        self._set(pod, "Succeeded" if code == 0 else "Failed", containerStatuses=statuses)

    def _end_processes(self) -> bool:
        left = [pid for pid in self.processes() if not is_gone(pid)]
        for pid in left:
            kill(pid)
        for process in self._processes.values():
            process.poll()
        return not left


def _phase(pod: dict[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase") or "")


def _cores(pod: dict[str, Any]) -> float:
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    number, milli = re.fullmatch(r"([\d.]+)(m?)", str(requests.get("cpu", "0"))).groups()  # type: ignore[union-attr]
    return float(number) / (1000 if milli else 1)


def _container_status(container: dict[str, Any], state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    name, image = container["name"], container["image"]
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": {"running": None, "terminated": None, "waiting": None, **state},
    }


@contextmanager
def running_kubernetes_cluster(folder: Path, **options: Any) -> Iterator[KubernetesCluster]:
    """Run such a Kubernetes."""
    cluster = KubernetesCluster(folder, **options)
    try:
        yield cluster.start()
    finally:
        cluster.stop()
