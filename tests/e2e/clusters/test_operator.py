"""The operator with a job manager and real jobs: upgrade, rollback, suspension, blue/green, deletion.

The API server is the small one of the tests, and Kubernetes' own where that is: there the operator has the chart's role.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pystate.common.files.home import PystateHome, read_json
from pystate_operator.custom_resource import definition
from tests.documents.page import DOCS, blocks
from tests.e2e.clusters.counting_job import PROGRAM
from tests.faults.processes import descendants, kill, needs_proc
from tests.faults.workload import Watched, check_tallies
from tests.ops.jobmanager.harness import PYTHON_PATH, REPOSITORY
from tests.pystate_operator.operator_process import OperatorProcess, running_operator
from tests.servers.api_server import running_api_server
from tests.servers.kube_apiserver import needs_kube_apiserver, running_kube_apiserver
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]

SETTINGS = {
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "500 ms",
}
BROKEN = PROGRAM.replace("env.execute", "raise RuntimeError('this version is broken')\nenv.execute")


@pytest.fixture(params=["ours", pytest.param("kubernetes", marks=needs_kube_apiserver)])
def api(request, tmp_path) -> Iterator[Any]:
    ours = request.param == "ours"
    with running_api_server(definition()) if ours else running_kube_apiserver(tmp_path / "api") as server:
        yield server


class Manager:
    """A job manager, started as in a container, and the operator beside it.

    Args:
        root: For its files.
        api: The API server.
    """

    def __init__(self, root: Path, api: Any) -> None:
        self.root = root
        self.api = api
        self.home = PystateHome(root / "home")
        self.watched = Watched(root / "words")
        environment = {**os.environ, "PYSTATE_HOME": str(self.home.root), "PYTHONPATH": PYTHON_PATH}
        environment["PYSTATE_CONF_DIR"] = str(REPOSITORY / "conf")
        self._environment = environment
        command = [sys.executable, "-m", "pystate_cli", "cluster", "start", "--foreground", "-D", "rest.port=0"]
        self._log = (root / "jobmanager.log").open("wb")
        self._process = subprocess.Popen(command, env=environment, stderr=self._log, stdout=self._log, cwd=root)
        wait_until(lambda: read_json(self.home.jobmanager) is not None)

    def pystate(self, *words: str) -> str:
        """Call `pystate`; return the last line that it prints."""
        command = [sys.executable, "-m", "pystate_cli", *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=LONGEST_S, check=True)
        return done.stdout.splitlines()[-1]

    def program(self, name: str, text: str = PROGRAM) -> str:
        """Write a program; return its path."""
        file = self.root / "programs" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    def resource(self) -> dict[str, Any]:
        """Return the resource of the page, with the paths and the times of this test."""
        page = (DOCS / "kubernetes.md").read_text()
        body = next(yaml.safe_load(one.text) for one in blocks(page) if "kind: PystateJob" in one.text)
        job = {**body["spec"]["job"], "program": self.program("count-v1"), "args": [str(self.watched.folder)]}
        places = {
            "execution.checkpointing.dir": f"file:{self.root}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"file:{self.root}/savepoints",
        }
        return {**body, "spec": {**body["spec"], "job": job, "flinkConfiguration": {**SETTINGS, **places}}}

    @property
    def status(self) -> dict[str, Any]:
        """The status of the resource."""
        return dict((self.api.get("count") or {}).get("status") or {})

    def comes_to(self, lifecycle: str, program: str | None = None) -> None:
        """Wait for a state, and for a job of a program."""
        wait_until(lambda: self.status.get("lifecycleState") == lifecycle)
        if program is not None:
            told = read_json(self.home.job(self.status["jobStatus"]["jobId"]).submission)
            assert Path(told["job_file"]).stem == program

    def change(self, **spec: Any) -> None:
        """Change the resource, and wait until the operator has seen it."""
        self.api.change("count", spec)
        generation = self.api.get("count")["metadata"]["generation"]
        wait_until(lambda: self.status.get("observedGeneration") == generation)

    def feed(self) -> None:
        """Give the job some words, and wait until all there are have been counted."""
        self.watched.add(3)
        word, count = self.watched.words.most_common(1)[0]
        log = self.home.job(self.status["jobStatus"]["jobId"]).log
        wait_until(lambda: f"({word},{count})" in log.read_text())

    def savepoint(self, nonce: int) -> str:
        """Have a savepoint taken; return its path, once its counts have been compared with one pass over the words."""
        before = len(self.status["savepoints"])
        self.change(job={"savepointTriggerNonce": nonce})
        wait_until(lambda: len(self.status["savepoints"]) > before)
        path = str(self.status["savepoints"][-1]["path"])
        check_tallies(path, self.watched.words)
        return path

    def running(self) -> list[str]:
        """Return the jobs whose driver runs."""
        statuses = {path.parent.name: read_json(path) for path in self.home.root.glob("jobs/*/status.json")}
        ended = ("FINISHED", "CANCELED", "FAILED")
        return [job for job, told in statuses.items() if told is not None and told["state"] not in ended]

    def stop(self) -> None:
        """End it with its drivers."""
        self._process.terminate()
        self._process.wait(LONGEST_S)
        self._log.close()
        for address in self.home.root.glob("jobs/*/driver.json"):
            found = read_json(address)
            for pid in [*descendants(found["pid"]), found["pid"]]:
                kill(pid)


@pytest.fixture
def manager(tmp_path, api):
    made = Manager(tmp_path, api)
    yield made
    made.stop()


@pytest.fixture
def operator(tmp_path, api, manager) -> Iterator[OperatorProcess]:
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
    with running_operator(manager.home.root, kubeconfig, tmp_path / "operator.log") as started:
        yield started


def test_a_job_is_upgraded_rolled_back_suspended_resumed_and_deleted(manager, operator, api):
    api.create(manager.resource())
    manager.comes_to("STABLE", "count-v1")
    manager.feed()

    # another program at another parallelism; the operator dies on the way
    manager.change(job={"program": manager.program("count-v2"), "parallelism": 1})
    operator.kill()
    operator.start()
    manager.comes_to("STABLE", "count-v2")
    assert manager.status["jobStatus"]["startedFrom"] == manager.status["savepoints"][0]["path"]
    manager.feed()

    # one that doesn't run
    manager.change(job={"program": manager.program("broken", BROKEN)}, upgrade={"readinessTimeout": "120 s"})
    manager.comes_to("ROLLED_BACK", "count-v2")
    found = {one["type"]: one["status"] for one in manager.status["conditions"]}
    assert (found["Ready"], found["Degraded"]) == ("False", "True")
    manager.feed()

    manager.change(job={"program": manager.program("count-v2"), "state": "suspended"})
    manager.comes_to("SUSPENDED")
    assert manager.running() == []
    manager.watched.add(2)
    manager.change(job={"state": "running"})
    manager.comes_to("STABLE", "count-v2")
    manager.feed()
    assert len(manager.running()) == 1

    # a fork beside it
    first = manager.status["jobStatus"]["jobId"]
    manager.change(job={"program": manager.program("count-v3")}, upgrade={"strategy": "blueGreen"})
    wait_until(lambda: len(manager.running()) == 2)
    assert manager.status["jobStatus"]["jobId"] == first, "until the new one has proven itself"
    wait_until(lambda: manager.running() and first not in manager.running())
    manager.comes_to("STABLE", "count-v3")
    manager.feed()

    # from the latest checkpoint
    last_state = {"program": manager.program("count-v4"), "upgradeMode": "last-state"}
    manager.change(job=last_state, upgrade={"strategy": "replace"})
    manager.comes_to("STABLE", "count-v4")
    assert "/checkpoints/" in manager.status["jobStatus"]["startedFrom"]
    manager.feed()

    own = manager.pystate("savepoint", manager.status["jobStatus"]["jobId"]).removeprefix("file:")
    last = manager.savepoint(1)
    manager.change(savepointHistory={"maxCount": 1})
    wait_until(lambda: [one["path"] for one in manager.status["savepoints"]] == [last])
    wait_until(lambda: [f"file:{one}" for one in (manager.root / "savepoints").glob("count-*/*")] == [last])
    assert Path(own).exists(), "what a person asked for is theirs"

    api.delete("count")
    wait_until(lambda: api.get("count") is None)
    assert manager.running() == []
