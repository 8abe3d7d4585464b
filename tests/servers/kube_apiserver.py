"""Kubernetes' own API server with its etcd, compiled by `make kube-apiserver`: no nodes, no scheduler, no controllers."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pystate_operator.custom_resource import GROUP, PLURAL, definition
from tests.e2e.clusters.spark_cluster import LOOPBACK
from tests.servers.api_server import NAMESPACE, write_kubeconfig
from tests.servers.places import SERVERS
from tests.waiting import LONGEST_S, wait_until

PROGRAM = SERVERS / "kube-apiserver" / "kube-apiserver"
needs_kube_apiserver = pytest.mark.skipif(
    not PROGRAM.is_file() or shutil.which("kubectl") is None,
    reason="there is no kube-apiserver here: run `make kube-apiserver`; or no kubectl",
)
ACCOUNT = "pystate-operator"
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "pystate"


class KubeApiServer:
    """The server, with a namespace, the definition, and an account that has the rights of the chart's operator alone."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._root = root
        self._processes: list[subprocess.Popen[bytes]] = []
        self._kubeconfig = root / "admin"

    def start(self) -> KubeApiServer:
        """Start it."""
        ports = [LOOPBACK.free_port() for _ in range(3)]
        etcd, tokens = f"http://127.0.0.1:{ports[0]}", {"admin": secrets.token_hex(), ACCOUNT: secrets.token_hex()}
        peer = f"http://127.0.0.1:{ports[1]}"
        (self._root / "tokens").write_text(
            f'{tokens["admin"]},admin,1,"system:masters"\n{tokens[ACCOUNT]},system:serviceaccount:{NAMESPACE}:{ACCOUNT},2,\n'
        )
        key = self._root / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        of_server = {
            "etcd-servers": etcd,
            "secure-port": ports[2],
            "bind-address": "127.0.0.1",
            "cert-dir": self._root / "certificates",
            "token-auth-file": self._root / "tokens",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.96.0.0/16",
            "disable-admission-plugins": "ServiceAccount",
        }
        self._run("etcd", "etcd", self._root / "etcd", etcd, peer)
        self._run("server", *(f"--{name}={value}" for name, value in of_server.items()))
        url = f"https://127.0.0.1:{ports[2]}"
        certificate = self._root / "certificates" / "apiserver.crt"
        wait_until(certificate.exists)
        for name, token in tokens.items():
            write_kubeconfig(self._root / name, url, token, certificate)
        wait_until(lambda: self._asked("get", "--raw", "/readyz").returncode == 0)
        wait_until(lambda: self._asked("create", "namespace", NAMESPACE).returncode == 0)
        self._apply(definition())
        for one in _role():
            self._apply(one)
        wait_until(lambda: self._asked("get", PLURAL, "-n", NAMESPACE).returncode == 0)
        return self

    def stop(self) -> None:
        """End it."""
        for process in reversed(self._processes):
            process.kill()
            process.wait(LONGEST_S)

    def kubeconfig(self, file: Path) -> Path:
        """Write a file by which the operator finds it, with the rights that the chart gives it."""
        file.write_bytes((self._root / ACCOUNT).read_bytes())
        return file

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a resource."""
        return self._apply({**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}})

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a resource; None if it is gone."""
        done = self._asked("get", f"{PLURAL}.{GROUP}", name, "-n", NAMESPACE, "-o", "json", "--ignore-not-found")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)) if done.stdout.strip() else None

    def change(self, name: str, spec: dict[str, Any]) -> None:
        """Change what a resource asks for, by a merge patch."""
        patch = json.dumps({"spec": spec})
        done = self._asked("patch", f"{PLURAL}.{GROUP}", name, "-n", NAMESPACE, "--type", "merge", "-p", patch)
        assert done.returncode == 0, done.stderr

    def delete(self, name: str) -> None:
        """Delete a resource."""
        done = self._asked("delete", f"{PLURAL}.{GROUP}", name, "-n", NAMESPACE, "--wait=false")
        assert done.returncode == 0, done.stderr

    def refusal(self, manifest: dict[str, Any]) -> str:
        """Say why a manifest can't be applied in the namespace; empty where it can."""
        words = ("apply", "-n", NAMESPACE, "--dry-run=server", "--validate=strict", "-f", "-")
        return self._asked(*words, text=json.dumps(manifest)).stderr

    def reasons(self) -> set[str]:
        """Return the reasons of the events."""
        done = self._asked("get", "events", "-n", NAMESPACE, "-o", "json")
        assert done.returncode == 0, done.stderr
        return {one["reason"] for one in json.loads(done.stdout)["items"]}

    def _apply(self, body: dict[str, Any]) -> dict[str, Any]:
        done = self._asked("apply", "-f", "-", "-o", "json", text=json.dumps(body))
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def _asked(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", str(self._kubeconfig), *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=LONGEST_S, check=False)

    def _run(self, name: str, *words: object) -> None:
        with (self._root / f"{name}.log").open("wb") as log:
            command = [PROGRAM, *map(str, words)]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self._root))


def _role() -> list[dict[str, Any]]:
    """Return the rights that the chart gives the operator, for the account of the tests."""
    text = (CHART / "templates" / "operator.yaml").read_text()
    rules = yaml.safe_load(text.split("\nkind: Role\n")[1].split("rules:\n")[1].split("---")[0])
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    return [
        {**head, "kind": "Role", "rules": rules},
        {**head, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    ]


@contextmanager
def running_kube_apiserver(folder: Path) -> Iterator[KubeApiServer]:
    """Run such a server."""
    server = KubeApiServer(folder)
    try:
        yield server.start()
    finally:
        server.stop()
