"""docs/spark-submit.md: its program, killed twice amid output, counts each record once; a job manager elsewhere shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from pystate.common.files.home import read_json
from tests.documents.page import DOCS, blocks
from tests.e2e.clusters.spark_cluster import LOOPBACK, ROOT, Cluster, bare_python
from tests.e2e.clusters.test_run_on_a_cluster import Operator
from tests.faults.processes import command_of, descendants, kill, needs_proc
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(900)]

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
JOB = "5f0c" * 8
ROWS_OF_A_FILE = 1200
WORDS = 100
_COUNTED = re.compile(r"\(w(\d+),\s*(\d+)\)")


class Submitted:
    """A program that spark-submit starts, again and again, with the same id.

    Args:
        root: For its files and its home.
        manager: The job manager that it is to register with.
        words: What spark-submit is told of the cluster.
    """

    def __init__(self, root: Path, manager: Operator, *words: str) -> None:
        self.root = root
        self.pystate = Operator(root / "programs", LOOPBACK)
        self.pystate.home.root.mkdir(parents=True)
        shutil.copy(manager.home.token, self.pystate.home.token)
        self.pystate.environment["PYSTATE_JOBMANAGER"] = f"127.0.0.1:{port_of(manager)}"
        python = bare_python(root / "bare")
        self.pystate.environment.update({"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": str(python)})
        self.folder = root / "in"
        self.folder.mkdir()
        program = next(
            block.text for block in blocks((DOCS / "spark-submit.md").read_text("utf-8")) if "env.execute" in block.text
        )
        (root / "job.py").write_text(program)
        (root / "words.py").write_text("def pair_of(word):\n    return word, 1\n")
        archive = shutil.make_archive(str(root / "pystate"), "zip", ROOT / "runtime", "pystate")
        options = {"parallelism.default": "2", "job-id": JOB}
        settings = [word for key, value in options.items() for word in ("--conf", f"spark.pystate.{key}={value}")]
        self._command = [str(SUBMIT), *words, *settings, "--py-files", archive, str(root / "job.py"), str(self.folder)]
        self._files = 0
        self.starts: list[subprocess.Popen[bytes]] = []

    def feed(self, files: int) -> None:
        """Give it files, each with as many rows, whose words take turns."""
        for _ in range(files):
            first = self._files * ROWS_OF_A_FILE
            lines = (f"w{number % WORDS}\n" for number in range(first, first + ROWS_OF_A_FILE))
            new = self.root / "new"
            new.write_text("".join(lines))
            new.rename(self.folder / f"{self._files:03}.txt")
            self._files += 1

    def feed_amid_output(self) -> None:
        """Give it files one by one, and come back while the results of the last ones are still to come."""
        for _ in range(3):
            before = self.lines
            self.feed(2)
            wait_until(lambda before=before: self.lines > before)
        self.feed(1)

    def start(self) -> None:
        """Start it once more."""
        number = len(self.starts)
        with self._out(number).open("wb") as out, self._log(number).open("wb") as log:
            self.starts.append(
                subprocess.Popen(
                    self._command,
                    stdout=out,
                    stderr=log,
                    env=self.pystate.environment,
                    cwd=self.root,
                    start_new_session=True,
                )
            )

    def _out(self, number: int) -> Path:
        return self.root / f"out-{number}"

    def _log(self, number: int) -> Path:
        return self.root / f"log-{number}"

    @property
    def said(self) -> str:
        """What the last start has told; spark-submit prints the program's stderr as its stdout."""
        number = len(self.starts) - 1
        return self._out(number).read_text() + self._log(number).read_text()

    @property
    def lines(self) -> int:
        """How many results the last start has printed."""
        return len(_COUNTED.findall(self._out(len(self.starts) - 1).read_text()))

    def python(self) -> int:
        """Return the process of the program."""
        (found,) = (
            pid for pid in descendants(self.starts[-1].pid) if str(self.root / "job.py") in command_of(pid).split()[1:2]
        )
        return int(found)

    def counts(self) -> Counter[int]:
        """Return the highest count of each word that any start has printed."""
        highest: Counter[int] = Counter()
        for number in range(len(self.starts)):
            for word, count in _COUNTED.findall(self._out(number).read_text()):
                highest[int(word)] = max(highest[int(word)], int(count))
        return highest

    def expected(self) -> Counter[int]:
        """Return how often each word was given."""
        return Counter(number % WORDS for number in range(self._files * ROWS_OF_A_FILE))

    def kill_all(self) -> None:
        """Kill the last start with all that it has started, as if its machine went down."""
        process = self.starts[-1]
        for pid in [*descendants(process.pid), process.pid]:
            kill(pid)
        process.wait()

    def close(self) -> None:
        for process in self.starts:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            process.wait()


def port_of(manager: Operator) -> int:
    return int((read_json(manager.home.jobmanager) or {})["port"])


def state(manager: Operator, job_id: str = JOB) -> str | None:
    """Return what the job manager says of the job; None where it lists no such job."""
    found = [job for job in json.loads(manager("list", "-a", "--json"))["jobs"] if job_id in job.values()]
    return next((str(job["state"]) for job in found), None)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Operator]:
    """A job manager in a home of its own."""
    made = Operator(tmp_path / "manager", LOOPBACK)
    made("cluster", "start", "-D", "rest.port=0")
    yield made
    made.close()


@pytest.fixture(params=["local", "standalone"])
def submitted(request: pytest.FixtureRequest, tmp_path: Path, manager: Operator) -> Iterator[Submitted]:
    """The program, on this machine or on a cluster, whose executors have nothing of ours."""
    cluster = Cluster(tmp_path / "cluster").start() if request.param == "standalone" else None
    words = [] if cluster is None else ["--master", cluster.url, "--conf", "spark.cores.max=6"]
    made = Submitted(tmp_path, manager, *words)
    yield made
    made.close()
    if cluster is not None:
        cluster.stop()


def test_a_job_that_is_killed_twice_amid_its_output_counts_each_record_once(submitted: Submitted, manager: Operator) -> None:
    submitted.feed(1)
    submitted.start()
    wait_until(lambda: submitted.lines >= ROWS_OF_A_FILE)
    wait_until(lambda: state(manager) == "RUNNING")
    submitted.feed_amid_output()
    kill(submitted.python())
    submitted.starts[-1].wait(LONGEST_S)
    assert state(manager) == "FAILED"
    told = manager("exceptions", JOB)
    assert "started elsewhere" in told
    assert f"pystate.job-id = {JOB}" in told

    submitted.feed(1)
    submitted.start()
    wait_until(lambda: submitted.lines >= ROWS_OF_A_FILE)
    assert f"Job {JOB} goes on from its latest checkpoint" in submitted.said
    wait_until(lambda: state(manager) == "RUNNING")
    submitted.feed_amid_output()
    submitted.kill_all()

    port = port_of(manager)
    os.kill((read_json(manager.home.jobmanager) or {})["pid"], signal.SIGKILL)
    manager("cluster", "start", "-D", f"rest.port={port}")
    submitted.start()
    wait_until(lambda: state(manager) == "RUNNING")
    submitted.feed(2)
    wait_until(lambda: submitted.counts() == submitted.expected())
    assert "savepoint" in manager("savepoint", JOB, str(submitted.root / "savepoints"))
    manager("stop", "-p", submitted.root / "savepoints", JOB)
    assert submitted.starts[-1].wait(LONGEST_S) == 0, submitted.said
    assert state(manager) == "FINISHED"
    assert submitted.counts() == submitted.expected()

    submitted.start()
    assert submitted.starts[-1].wait(LONGEST_S) == 1
    assert f"The job {JOB} has FINISHED, so it isn't run again." in submitted.said
