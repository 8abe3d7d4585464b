"""`spark-submit --master yarn --deploy-mode cluster`: a second attempt of the application master goes on with the job."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from pystate.runtime.job_folder.small_files import DriverTermFile
from tests.documents.page import DOCS, blocks
from tests.e2e.clusters.spark_cluster import LOOPBACK, ROOT, bare_python
from tests.e2e.clusters.test_run_on_a_cluster import Operator
from tests.e2e.clusters.test_spark_submit import ROWS_OF_A_FILE, SUBMIT, WORDS, manager, port_of, state
from tests.faults.processes import command_of, kill, needs_proc
from tests.servers import yarn_cluster
from tests.servers.yarn_cluster import YarnCluster, running_yarn_cluster
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]

__all__ = ["manager"]  # a fixture
_COUNTED = re.compile(r"\(w(\d+),\s*(\d+)\)")
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[YarnCluster]:
    reason = yarn_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    with running_yarn_cluster(tmp_path / "cluster") as running:
        yield running


class Submitted:
    """The program of docs/spark-submit.md, whose driver is a container of YARN.

    Args:
        root: For its files.
        cluster: The YARN.
        manager: The job manager that it is to register with.
    """

    def __init__(self, root: Path, cluster: YarnCluster, manager: Operator) -> None:
        self.root = root
        self.cluster = cluster
        self.pystate = Operator(root / "programs", LOOPBACK)
        self.pystate.home.root.mkdir(parents=True)
        shutil.copy(manager.home.token, self.pystate.home.token)
        self.folder = root / "in"
        self.folder.mkdir()
        page = blocks((DOCS / "spark-submit.md").read_text("utf-8"))
        (root / "job.py").write_text(next(block.text for block in page if "env.execute" in block.text))
        (root / "words.py").write_text("def pair_of(word):\n    return word, 1\n")
        archive = _archive(root)
        python = bare_python(root / "bare")
        settings = {
            **yarn_cluster.SMALL_APPLICATION,
            "spark.pystate.parallelism.default": "2",
            "spark.pystate.jobmanager.address": f"127.0.0.1:{port_of(manager)}",
            "spark.pystate.execution.checkpointing.dir": f"hdfs://{cluster.hdfs.address}/checkpoints",
            "spark.pyspark.python": str(python),
            "spark.yarn.appMasterEnv.PYSTATE_HOME": str(self.pystate.home.root),
            "spark.yarn.maxAppAttempts": "2",
        }
        said = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        files = f"{archive},{root / 'words.py'}"
        command = [str(SUBMIT), "--master", "yarn", "--deploy-mode", "cluster", *said, "--py-files", files]
        environment = {**os.environ, **cluster.environment, "PYSPARK_PYTHON": sys.executable}
        with (root / "submit.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(root / "job.py"), f"file://{self.folder}"], stdout=log, stderr=log, env=environment, cwd=root
            )
        self._files = 0

    def feed(self) -> None:
        """Give it a file of rows, whose words take turns."""
        first = self._files * ROWS_OF_A_FILE
        new = self.root / "new"
        new.write_text("".join(f"w{number % WORDS}\n" for number in range(first, first + ROWS_OF_A_FILE)))
        new.rename(self.folder / f"{self._files:03}.txt")
        self._files += 1

    @property
    def said(self) -> str:
        """What its drivers have told so far, in all attempts."""
        outputs = self.cluster.root.glob("nodemanager-*/logs/*/*/stdout")
        return "\n".join(path.read_text("utf-8", "replace") for path in sorted(outputs))

    @property
    def lines(self) -> int:
        """How many results they have printed."""
        return len(_COUNTED.findall(self.said))

    def counts(self) -> Counter[int]:
        """Return the highest count of each word."""
        highest: Counter[int] = Counter()
        for word, count in _COUNTED.findall(self.said):
            highest[int(word)] = max(highest[int(word)], int(count))
        return highest

    def expected(self) -> Counter[int]:
        """Return how often each word was given."""
        return Counter(number % WORDS for number in range(self._files * ROWS_OF_A_FILE))

    def master(self) -> int:
        """Return the JVM of the application master, in which the driver is."""
        (found,) = (pid for pid in self.cluster.containers() if _MASTER in command_of(pid) and "bash" not in command_of(pid))
        return found

    @property
    def term(self) -> str | None:
        """Which driver is in charge."""
        found = DriverTermFile.read_from(self.pystate.home.job(self.job_id).term)
        return None if found is None else found.driver

    @property
    def job_id(self) -> str:
        """The job, whose id is made of that of its application."""
        (application,) = self.cluster.applications()
        return hashlib.blake2b(application["id"].encode(), digest_size=16).hexdigest()


def _archive(root: Path) -> str:
    """Make what `make zip` writes: pystate and what says which connectors it has."""
    wheel = root / "wheel"
    shutil.copytree(ROOT / "runtime" / "pystate", wheel / "pystate", ignore=shutil.ignore_patterns("__pycache__"))
    names = distribution("pystate-spark").read_text("entry_points.txt")
    assert names is not None
    described = wheel / "pystate_spark-0.dist-info"
    described.mkdir()
    (described / "entry_points.txt").write_text(names)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: pystate-spark\nVersion: 0\n")
    return shutil.make_archive(str(root / "pystate"), "zip", wheel)


@pytest.fixture
def submitted(tmp_path: Path, cluster: YarnCluster, manager: Operator) -> Iterator[Submitted]:
    made = Submitted(tmp_path, cluster, manager)
    yield made
    kill(made.process.pid)
    made.process.wait()


def test_a_second_attempt_of_the_application_goes_on_from_the_latest_checkpoint(
    submitted: Submitted, manager: Operator
) -> None:
    submitted.feed()
    wait_until(lambda: submitted.lines >= ROWS_OF_A_FILE)
    wait_until(lambda: state(manager, submitted.job_id) == "RUNNING")
    term, before = submitted.term, submitted.lines
    submitted.feed()
    wait_until(lambda: submitted.lines > before)
    kill(submitted.master())

    wait_until(lambda: f"Job {submitted.job_id} goes on from its latest checkpoint" in submitted.said)
    submitted.feed()
    wait_until(lambda: submitted.counts() == submitted.expected())
    assert submitted.term not in (None, term)
    wait_until(lambda: state(manager, submitted.job_id) == "RUNNING")
    (application,) = submitted.cluster.applications()
    assert len(submitted.cluster.get(f"apps/{application['id']}/appattempts")["appAttempts"]["appAttempt"]) == 2

    manager("stop", "-p", f"hdfs://{submitted.cluster.hdfs.address}/savepoints", submitted.job_id)
    assert submitted.process.wait(LONGEST_S) == 0, (submitted.root / "submit.log").read_text()
    assert state(manager, submitted.job_id) == "FINISHED"
    assert submitted.counts() == submitted.expected()
    assert submitted.cluster.applications()[0]["finalStatus"] == "SUCCEEDED"
