"""A real HDFS on loopback: Hadoop's own mini cluster, from the jars that `make servers` brings."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree  # noqa: S405 - reads what we have had written

from pystate.common.errors import JavaNotFoundError
from pystate.common.processes.java import find_java
from tests.servers.places import SERVERS
from tests.waiting import LONGEST_S

JARS = SERVERS / "hadoop"
# as they are before a test takes the machine's own settings away
_LIBHDFS_PLACES = {name: os.environ[name] for name in ("ARROW_LIBHDFS_DIR", "HADOOP_HOME") if os.environ.get(name)}


@dataclass(frozen=True)
class HdfsCluster:
    """The cluster.

    Attributes:
        conf_dir: What HADOOP_CONF_DIR is to be.
        address: `host:port` of the name node.
        webhdfs: `host:port` of its WebHDFS.
        class_path: Hadoop's classes and the settings, for libhdfs.
    """

    conf_dir: Path
    address: str
    webhdfs: str
    class_path: str

    def names_in(self, folder: str) -> set[str]:
        """Return the names of what is in a folder."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.webhdfs}/webhdfs/v1{folder}?op=LISTSTATUS", timeout=LONGEST_S) as answer:
            return {one["pathSuffix"] for one in json.load(answer)["FileStatuses"]["FileStatus"]}

    @property
    def libhdfs_environment(self) -> dict[str, str]:
        """The variables with which a process reaches it through libhdfs."""
        java = find_java().executable.resolve()
        return {
            **_LIBHDFS_PLACES,
            "CLASSPATH": self.class_path,
            "JAVA_HOME": os.environ.get("JAVA_HOME", str(java.parents[1])),
            "LIBHDFS_OPTS": "-Xmx256m",
        }


def missing_libhdfs() -> str | None:
    """Say why there is no libhdfs here; None where there is one."""
    if any(any(Path(folder).glob(f"{below}libhdfs.*")) for folder, below in _libhdfs_folders()):
        return None
    return "there is no libhdfs here: set ARROW_LIBHDFS_DIR to its folder, or HADOOP_HOME to a Hadoop with lib/native"


def _libhdfs_folders() -> list[tuple[str, str]]:
    below = {"ARROW_LIBHDFS_DIR": "", "HADOOP_HOME": "lib/native/"}
    return [(folder, below[name]) for name, folder in _LIBHDFS_PLACES.items()]


def missing() -> str | None:
    """Say why there is no cluster here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no Hadoop here: run `make servers`"
    try:
        find_java()
    except JavaNotFoundError as error:
        return error.message
    return None


@contextmanager
def running_hdfs_cluster(folder: Path) -> Iterator[HdfsCluster]:
    """Run a name node and a data node in one Java process."""
    settings, details, log = folder / "cluster.xml", folder / "details.json", folder / "log.txt"
    command = [
        str(find_java().executable),
        "--add-opens=java.base/java.lang=ALL-UNNAMED",  # WebHDFS needs it from Java 17 on
        "-Xmx384m",
        "-XX:+UseSerialGC",
        *("-cp", f"{JARS}/*"),
        "org.apache.hadoop.test.MiniDFSClusterManager",
        "-format",
        *("-writeConfig", str(settings), "-writeDetails", str(details)),
        *("-D", f"hdfs.minidfs.basedir={folder}/dfs", "-D", "dfs.permissions.enabled=false"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LONGEST_S
        while not (details.is_file() and details.stat().st_size):  # written last
            assert process.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < deadline, f"no cluster after {LONGEST_S} s"
            time.sleep(0.1)
        yield _described(folder, settings)
    finally:
        process.kill()
        process.wait(LONGEST_S)


def _described(folder: Path, settings: Path) -> HdfsCluster:
    properties = ElementTree.parse(settings).iter("property")  # noqa: S314 - see above
    values = {entry.findtext("name"): entry.findtext("value") or "" for entry in properties}
    conf_dir = folder / "conf"
    conf_dir.mkdir()
    for name in ("core-site.xml", "hdfs-site.xml"):
        conf_dir.joinpath(name).write_bytes(settings.read_bytes())
    return HdfsCluster(
        conf_dir=conf_dir,
        address=values["fs.defaultFS"].removeprefix("hdfs://"),
        webhdfs=values["dfs.namenode.http-address"],
        class_path=os.pathsep.join([str(conf_dir), *map(str, sorted(JARS.glob("*.jar")))]),
    )
