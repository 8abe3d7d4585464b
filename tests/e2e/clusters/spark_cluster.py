"""A Spark standalone cluster for tests: a master and workers, whose executors run a Python that has nothing of ours."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from pystate.common.processes.java import find_java
from tests.faults.processes import command_of, descendants, kill
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
NOT_OF_EXECUTORS = ("pystate", "__editable__", "pyspark", "py4j")
"""What an executor's Python does not have; PySpark comes with the cluster's own Spark."""


@dataclass(frozen=True)
class Host:
    """Where processes of the cluster run: an address, and what a command begins with to run there."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()

    def free_port(self) -> int:
        script = f"import socket; print(socket.create_server(({self.address!r}, 0)).getsockname()[1])"
        return int(subprocess.check_output([*self.prefix, sys.executable, "-c", script]))


LOOPBACK = Host()


@dataclass(frozen=True)
class Executor:
    """An executor that runs.

    Attributes:
        pid: Its process.
        executor_id: Its number within its application.
        application_id: The Spark application it works for.
        work_directory: Where its logs are, and what was shipped to it.
    """

    pid: int
    executor_id: str
    application_id: str
    work_directory: Path

    @staticmethod
    def of(pid: int) -> Executor:
        words = command_of(pid).split()
        said = {name: words[words.index(name) + 1] for name in ("--executor-id", "--app-id")}
        return Executor(pid, said["--executor-id"], said["--app-id"], Path(os.readlink(f"/proc/{pid}/cwd")))

    @property
    def block_folders(self) -> list[Path]:
        """The folders of its block manager, `blockmgr-*`: shuffle files, spills and broadcasts are in there."""
        variables = Path(f"/proc/{self.pid}/environ").read_text().split("\0")
        places = next(word.partition("=")[2] for word in variables if word.startswith("SPARK_EXECUTOR_DIRS="))
        return [folder for place in places.split(":") for folder in sorted(Path(place).glob("blockmgr-*"))]

    def shuffle_files(self, pattern: str = "shuffle_*") -> list[Path]:
        """Return the files of shuffles that it holds now: `shuffle_<shuffle>_<map task>_0.data` and `.index`."""
        return sorted(path for folder in self.block_folders for path in folder.glob(f"*/{pattern}") if path.is_file())


def bare_python(folder: Path, without: Sequence[str] = ()) -> Path:
    """Make a Python that finds the dependencies alone, but for some."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.lower().startswith((*NOT_OF_EXECUTORS, *without)):
            (packages / entry.name).symlink_to(entry)
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys._base_executable} -s -S "$@"\n'  # type: ignore[attr-defined]
    )
    python.chmod(0o755)
    return python


def library_of_tests(folder: Path) -> Path:
    """Make a folder with those modules of the tests that a job's functions are from, for python.files."""
    shutil.copytree(ROOT / "tests" / "faults", folder / "tests" / "faults", ignore=shutil.ignore_patterns("test_*", "__py*"))
    return folder


class Cluster:
    """A master, and a worker per host.

    Args:
        root: For logs and the workers' folders.
        hosts: Where the workers run.
        home: Where the master runs.
        remembers: Whether a master that is started again knows its applications (`spark.deploy.recoveryMode`).
    """

    def __init__(
        self,
        root: Path,
        hosts: Iterable[Host] = (LOOPBACK, LOOPBACK),
        home: Host = LOOPBACK,
        *,
        remembers: bool = False,
    ) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.hosts = list(hosts)
        self.home = home
        self.port = home.free_port()
        self.web_port = home.free_port()
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.environment = {**os.environ, **find_java().environment}
        self.environment.update({"SPARK_WORKER_DIR": str(root / "work"), "SPARK_LOG_DIR": str(root)})
        self.environment.pop("PYTHONPATH", None)
        if remembers:
            recovery = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": str(root / "recovery")}
            options = " ".join(f"-Dspark.deploy.{name}={value}" for name, value in recovery.items())
            self.environment["SPARK_DAEMON_JAVA_OPTS"] = options

    def ask_for_a_proof(self, secret: str, *, encrypted: bool = False) -> None:
        """Let master and workers, which are to be started, speak to those only who prove a secret, and who encrypt."""
        conf = self.root / "conf"
        conf.mkdir()
        defaults = conf / "spark-defaults.conf"
        defaults.touch(0o600)
        crypto = f"spark.network.crypto.enabled {str(encrypted).lower()}\n"
        defaults.write_text(f"spark.authenticate true\nspark.authenticate.secret {secret}\n{crypto}")
        self.environment["SPARK_CONF_DIR"] = str(conf)

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The master and the workers."""
        return [*([] if self.master is None else [self.master]), *self.workers]

    @property
    def url(self) -> str:
        return f"spark://{self.home.address}:{self.port}"

    def start(self, cores: int = 4) -> Cluster:
        self.start_master()
        for _ in self.hosts:
            self.start_worker(cores)
        wait_until(lambda: self._log("master").count("Registering worker") == len(self.hosts))
        return self

    def start_master(self) -> None:
        """Start the master; also once more, at the same address."""
        master = "org.apache.spark.deploy.master.Master"
        ports = ("--port", self.port, "--webui-port", self.web_port)
        self.master = self._spawn("master", self.home, master, "--host", self.home.address, *ports)
        wait_until(lambda: "I have been elected leader" in self._log("master"))

    def start_worker(self, cores: int = 4) -> None:
        """Start one more worker; the hosts take turns."""
        number = len(self.workers)
        host = self.hosts[number % len(self.hosts)]
        options = ("--host", host.address, "--cores", cores, "--memory", "1g", "--webui-port", 0)
        worker = "org.apache.spark.deploy.worker.Worker"
        local = {"SPARK_LOCAL_DIRS": str(self.root / f"local-{number}")}
        self.workers.append(self._spawn(f"worker-{number}", host, worker, *options, self.url, variables=local))

    def kill_master(self) -> None:
        """Kill the master; workers, executors and drivers live."""
        assert self.master is not None
        kill(self.master.pid)
        self.master.wait()

    def below(self) -> list[int]:
        """Return all processes of the cluster."""
        return [pid for process in self.processes for pid in (process.pid, *descendants(process.pid))]

    def executor_pids(self) -> list[int]:
        return [pid for pid in self.below() if "CoarseGrainedExecutorBackend" in command_of(pid)]

    def executors(self) -> list[Executor]:
        """Return the executors that run, with their work directories and block folders."""
        return [Executor.of(pid) for pid in self.executor_pids()]

    def shuffle_files(self, pattern: str = "shuffle_*") -> list[Path]:
        """Return the files of shuffles that all executors hold now."""
        return [path for executor in self.executors() for path in executor.shuffle_files(pattern)]

    def stop(self) -> None:
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            process.wait()

    def _log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    def _spawn(
        self, name: str, host: Host, *command: object, variables: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        # not in our own environment: the driver must find its address by itself
        environment = {**self.environment, **(variables or {}), "SPARK_LOCAL_IP": host.address}
        with (self.root / f"{name}.log").open("wb") as log:
            words = [*host.prefix, str(SPARK_CLASS), *map(str, command)]
            return subprocess.Popen(words, stdout=log, stderr=log, env=environment, cwd=self.root)


def listening_addresses(pid: int) -> list[tuple[str, int]]:
    """Return the addresses at which a process listens by TCP, as (host, port)."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except FileNotFoundError:  # closed meanwhile
            continue
    found = []
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].partition(":")
                words = bytes.fromhex(address)
                raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                found.append((socket.inet_ntop(family, raw), int(port, 16)))
    return found
