"""A real YARN on loopback, beside an HDFS: Hadoop's own daemons, from the jars that `make servers` brings.

Containers are processes of the present user (`DefaultContainerExecutor`), whoever that is.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyspark

from pystate.common.processes.java import find_java
from tests.faults.processes import command_of, is_gone, kill, marked
from tests.servers import hdfs_cluster
from tests.servers.hdfs_cluster import HdfsCluster, running_hdfs_cluster
from tests.servers.nginx import free_port
from tests.servers.places import SERVERS
from tests.waiting import LONGEST_S, wait_until

JARS = SERVERS / "yarn"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
"""For spark.yarn.jars: without it each application uploads 400 MB."""
SMALL_APPLICATION = {
    "spark.yarn.jars": f"local:{SPARK_JARS}/*",
    "spark.driver.memory": "512m",
    "spark.driver.memoryOverhead": "1g",
    "spark.executor.instances": "2",
    "spark.executor.cores": "4",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1g",
}
"""Settings of an application for two subtasks, whose driver may be a container."""
_MARK = "PYSTATE_TESTS_YARN"
"""A variable of the daemons and of all containers, which live on where their node manager is killed."""
_OPENED = [
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
]
_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default,small",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.root.small.capacity": "0",
    "yarn.scheduler.capacity.root.small.maximum-capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}
_LOG4J = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


def missing() -> str | None:
    """Say why there is no YARN here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no YARN here: run `make servers`"
    return hdfs_cluster.missing()


class YarnCluster:
    """A resource manager and node managers.

    Args:
        root: For settings, logs and the containers' folders.
        hdfs: Its file system.
        nodes: How many node managers.
        memory_mb: What each may give to containers.
        settings: More of yarn-site.xml.

    Attributes:
        conf_dir: What HADOOP_CONF_DIR is to be.
    """

    def __init__(
        self,
        root: Path,
        hdfs: HdfsCluster,
        *,
        nodes: int = 1,
        memory_mb: int = 8192,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.hdfs = hdfs
        self.conf_dir = root / "conf"
        self.conf_dir.mkdir(parents=True)
        self.web = f"127.0.0.1:{free_port()}"
        self.node_managers: list[subprocess.Popen[bytes]] = []
        self.resource_manager: subprocess.Popen[bytes] | None = None
        self._java = find_java()
        # those of the mini cluster name classes that are there for tests only
        _write(self.conf_dir / "core-site.xml", {"fs.defaultFS": f"hdfs://{hdfs.address}"})
        _write(self.conf_dir / "hdfs-site.xml", {"dfs.namenode.http-address": hdfs.webhdfs, "dfs.replication": "1"})
        _write(self.conf_dir / "capacity-scheduler.xml", _SCHEDULER)
        (self.conf_dir / "log4j.properties").write_text(_LOG4J)
        _write(self.conf_dir / "yarn-site.xml", {**self._site(memory_mb), **(settings or {})})
        self._node_folders = [self._node_folder(number) for number in range(nodes)]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a client."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "YARN_CONF_DIR": str(self.conf_dir)}

    def start(self) -> YarnCluster:
        """Start all of it."""
        self.start_resource_manager()
        for number in range(len(self._node_folders)):
            self.start_node_manager(number)
        wait_until(lambda: self._cares() and self.get("metrics")["clusterMetrics"]["activeNodes"] == len(self.node_managers))
        return self

    def start_resource_manager(self) -> None:
        """Start the resource manager; also once more, at the same address."""
        main = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
        self.resource_manager = self._spawn("resourcemanager", self.conf_dir, main)

    def start_node_manager(self, number: int = 0) -> None:
        """Start a node manager; also once more, at the same address."""
        folder = self._node_folders[number]
        main = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
        process = self._spawn(folder.name, folder, main, f"-Dyarn.log.dir={folder}/log")
        self.node_managers[number : number + 1] = [process]

    def kill_node_manager(self, number: int = 0) -> None:
        """Kill a node manager; its containers live."""
        kill(self.node_managers[number].pid)
        self.node_managers[number].wait(LONGEST_S)

    def yarn(self, *words: str) -> str:
        """Call `yarn`, and return what it says."""
        main = {"application": "org.apache.hadoop.yarn.client.cli.ApplicationCLI"}[words[0]]
        command = [*self._command(self.conf_dir, main), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, cwd=self.root, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> Any:
        """Return what the resource manager says of itself below /ws/v1/cluster."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.web}/ws/v1/cluster/{path}", timeout=LONGEST_S) as answer:
            return json.load(answer)

    def applications(self) -> list[dict[str, Any]]:
        """Return all applications, the newest first."""
        found = (self.get("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda one: -int(one["startedTime"]))

    def containers(self) -> list[int]:
        """Return the processes of all containers, also of those whose node manager is gone."""
        own = {process.pid for process in (self.resource_manager, *self.node_managers) if process is not None}
        return [pid for pid in self._marked() if pid not in own]

    def executors(self) -> list[int]:
        """Return the JVMs of Spark's executors."""
        found = {pid: command_of(pid) for pid in self.containers()}
        return [pid for pid, said in found.items() if "YarnCoarseGrainedExecutorBackend" in said and "bash" not in said]

    def stop(self) -> None:
        """End all of it, with all containers."""
        for process in (self.resource_manager, *self.node_managers):
            if process is not None:
                kill(process.pid)
                process.wait(LONGEST_S)
        wait_until(self._end_containers)

    def _end_containers(self) -> bool:
        left = [pid for pid in self._marked() if not is_gone(pid)]
        for pid in left:
            kill(pid)
        return not left

    def _marked(self) -> list[int]:
        return marked(_MARK, self.root)

    def _cares(self) -> bool:
        for process in (self.resource_manager, *self.node_managers):
            assert process is None or process.poll() is None, self.logs()
        with contextlib.suppress(OSError):
            return bool(self.get("info")["clusterInfo"]["state"] == "STARTED")
        return False

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        return "\n".join(f"{path.name}:\n{path.read_text('utf-8', 'replace')[-3000:]}" for path in self.root.glob("*.log"))

    def _command(self, conf_dir: Path, main: str, *options: str) -> list[str]:
        # Hadoop's logger before the one that logs nothing
        logger = next(hdfs_cluster.JARS.glob("slf4j-reload4j-*.jar"))
        class_path = os.pathsep.join([str(conf_dir), str(logger), f"{JARS}/*", f"{hdfs_cluster.JARS}/*"])
        java = [str(self._java.executable), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [*java, *_OPENED, *options, "-cp", class_path, main]

    def _spawn(self, name: str, conf_dir: Path, main: str, *options: str) -> subprocess.Popen[bytes]:
        home = str(self._java.executable.resolve().parents[1])
        environment = {**os.environ, "JAVA_HOME": home, "HADOOP_CONF_DIR": str(conf_dir), _MARK: str(self.root)}
        with (self.root / f"{name}.log").open("ab") as log:
            command = self._command(conf_dir, main, *options)
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=self.root
            )

    def _site(self, memory_mb: int) -> dict[str, str]:
        ports = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        return {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}" for name in ports},
            "yarn.resourcemanager.webapp.address": self.web,
            "yarn.resourcemanager.webapp.ui-actions.enabled": "false",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": "16",
            # a busy machine is no sign of a container that has grown
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.admin-env": f"{_MARK}={self.root}",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.scheduler.maximum-allocation-vcores": "16",
        }

    def _node_folder(self, number: int) -> Path:
        """Make the folder of a node manager, with settings of its own."""
        folder = self.root / f"nodemanager-{number}"
        folder.mkdir()
        for path in self.conf_dir.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        own = {name: f"127.0.0.1:{free_port()}" for name in ("address", "localizer.address", "webapp.address")}
        own |= {"local-dirs": f"{folder}/local", "log-dirs": f"{folder}/logs", "recovery.dir": f"{folder}/recovery"}
        lines = (folder / "yarn-site.xml").read_text().replace("</configuration>", "")
        (folder / "yarn-site.xml").write_text(lines + _properties({f"yarn.nodemanager.{k}": v for k, v in own.items()}))
        return folder


def _properties(values: Mapping[str, str]) -> str:
    lines = [f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in values.items()]
    return "\n".join([*lines, "</configuration>", ""])


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text(f"<configuration>\n{_properties(values)}")


@contextmanager
def running_yarn_cluster(folder: Path, **options: Any) -> Iterator[YarnCluster]:
    """Run a YARN with an HDFS of its own."""
    (folder / "hdfs").mkdir(parents=True)
    with running_hdfs_cluster(folder / "hdfs") as hdfs:
        cluster = YarnCluster(folder / "yarn", hdfs, **options)
        try:
            yield cluster.start()
        finally:
            cluster.stop()
