"""A job on a Spark standalone cluster of one master and two workers on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pyspark
import pytest

from pystate.common.home import read_json
from pystate.common.java import find_java
from tests.faults.processes import command_of, descendants, kill, needs_proc, wait_until
from tests.faults.workload import Watched, state_in

pytestmark = [needs_proc, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"

DRIVER = """
import json, sys, threading
from pathlib import Path
from pystate.common.configuration import Configuration
from pystate.common.home import PystateHome, write_json
from pystate.datastream.executor import register_executor
from pystate.driver.embedded import LocalExecutor
from tests.faults.workload import Sink, Watched, counting

class Folder:
    def __init__(self, path):
        self.folder = Path(path)

class Executor(LocalExecutor):
    def started(self, master):
        threading.Thread(target=self.follow, args=(master,), daemon=True).start()

    def follow(self, master):
        for line in sys.stdin:
            path = master.savepoint(line.strip(), stop=False, cancel=True).result(60).path
            print("savepoint", path, flush=True)

home, folder, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
executor = Executor(Configuration(options), PystateHome(home))
register_executor(executor)
write_json(Path(home) / "job.json", executor.job_directory().path.name)
sink = Sink()

def keep(frame, epoch):
    sink(frame, epoch)
    write_json(Path(home) / "seen.json", sorted(sink.rows))

counting(Folder(folder), keep)()
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Cluster:
    """A master and two workers, with cores enough for parallelism 3."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        # not SPARK_LOCAL_IP: the driver of the test's own session must not inherit it
        self.environment = {**os.environ, **find_java().environment, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.environment.update({"SPARK_WORKER_DIR": str(root / "work"), "SPARK_LOG_DIR": str(root)})
        self.environment.pop("PYTHONPATH", None)

    def start(self, workers: int = 2, cores: int = 4) -> Cluster:
        master = "org.apache.spark.deploy.master.Master"
        self._spawn("master", master, "--host", "127.0.0.1", "--port", self.port, "--webui-port", 0)
        wait_until(lambda: "I have been elected leader" in self._log("master"))
        for number in range(workers):
            options = ("--host", "127.0.0.1", "--cores", cores, "--memory", "1g", "--webui-port", 0)
            self._spawn(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, f"spark://127.0.0.1:{self.port}"
            )
        wait_until(lambda: self._log("master").count("Registering worker") == workers)
        return self

    def executors(self) -> list[int]:
        below = [pid for process in self.processes for pid in descendants(process.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command_of(pid)]

    def stop(self) -> None:
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            process.wait()

    def _log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    def _spawn(self, name: str, *command: object) -> None:
        with (self.root / f"{name}.log").open("wb") as log:
            words = [str(SPARK_CLASS), *map(str, command)]
            process = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment, cwd=self.root)
        self.processes.append(process)


class Driver:
    """A job in a process of its own, without a job manager: one Spark application more would not fit into the test's."""

    def __init__(self, root: Path, watched: Watched, options: dict[str, str]) -> None:
        import json

        root.mkdir()
        self.root = root
        script = root / "driver.py"
        script.write_text(textwrap.dedent(DRIVER))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "runtime"), str(ROOT)))}
        command = [sys.executable, str(script), str(root), str(watched.folder), json.dumps(options)]
        with (root / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
            )

    @property
    def seen(self) -> set[tuple[str, int]]:
        return {(word, count) for word, count in read_json(self.root / "seen.json") or []}

    @property
    def status(self) -> dict:
        job_id = read_json(self.root / "job.json")
        return (job_id and read_json(self.root / "jobs" / job_id / "status.json")) or {"state": None, "attempt": -1}

    @property
    def errors(self) -> str:
        return (self.root / "stderr").read_text()

    def wait_for(self, condition, seconds: float = 90):
        def checked():
            assert self.process.poll() is None, self.errors
            return condition()

        return wait_until(checked, seconds)

    def savepoint(self, folder: Path) -> str:
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        path = self.process.stdout.readline().split(" ", 1)[1].strip()
        self.process.wait(60)
        return path

    def stop(self) -> None:
        for pid in [*descendants(self.process.pid), self.process.pid]:
            kill(pid)
        self.process.wait()


@pytest.fixture
def cluster(tmp_path):
    root = tmp_path / "cluster"
    root.mkdir()
    made = Cluster(root)
    yield made
    made.stop()


@pytest.fixture
def start(cluster, tmp_path):
    drivers: list[Driver] = []

    def run(watched: Watched, **options: str) -> Driver:
        settings = {
            "pystate.spark.master": f"spark://127.0.0.1:{cluster.port}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        drivers.append(Driver(tmp_path / f"driver-{len(drivers)}", watched, settings))
        return drivers[-1]

    yield run
    for driver in drivers:
        driver.stop()


@pytest.mark.slow
def test_a_job_on_a_cluster_survives_an_executor_and_resumes_at_another_parallelism(cluster, start, tmp_path):
    cluster.start()
    watched = Watched(tmp_path)
    watched.add(3)
    recovering = {
        "execution.checkpointing.interval": "500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }
    first = start(watched, **recovering, **{"parallelism.default": "2"})
    first.wait_for(lambda: first.seen >= watched.pairs)
    first.wait_for(lambda: list(tmp_path.glob("checkpoints/*/chk-*/_metadata")))
    executors = cluster.executors()
    assert len(executors) == 2

    kill(executors[0])
    first.wait_for(lambda: first.status["attempt"] >= 1 and first.status["state"] == "RUNNING")
    watched.add(3)
    first.wait_for(lambda: first.seen >= watched.pairs)
    path = first.savepoint(tmp_path / "savepoints")
    assert state_in(path) == dict(watched.words)
    assert first.seen == watched.pairs

    second = start(watched, **recovering, **{"parallelism.default": "3", "execution.state-recovery.path": path})
    watched.add(3)
    second.wait_for(lambda: first.seen | second.seen >= watched.pairs)
    assert state_in(second.savepoint(tmp_path / "savepoints")) == dict(watched.words)
    assert not first.seen & second.seen, "nothing is read again"


@pytest.mark.slow
def test_a_cluster_with_too_few_cores_is_refused_in_a_sentence(cluster, start, tmp_path):
    cluster.start(workers=1, cores=2)
    driver = start(Watched(tmp_path), **{"parallelism.default": "2", "pystate.slot.startup-timeout": "3 s"})
    assert driver.process.wait(90) == 1
    assert "Parallelism 2 needs 6 cores (2 x parallelism + 2)" in driver.errors
    assert driver.status["state"] == "FAILED"
