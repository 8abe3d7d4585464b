"""A job on a Spark standalone cluster of one master and two workers on this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from pystate.common.files.home import read_json
from tests.e2e.clusters.spark_cluster import ROOT, Cluster, bare_python, library_of_tests
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines
from tests.faults.processes import descendants, kill, needs_proc
from tests.faults.workload import Watched, state_in
from tests.security.all_ports import given_away, is_refusal, sockets_below
from tests.security.other_user import OtherUser
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.timeout(600)]

WORKERS_PID = 4
"""How many bytes Spark's daemon says to whoever connects."""

DRIVER = """
import json, sys, threading
from pathlib import Path
from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import PystateHome, write_json
from pystate.core.api.executor import register_executor
from pystate.runtime.driver.embedded import LocalExecutor
from tests.faults.workload import Sink, Watched, counting

class Folder:
    def __init__(self, path):
        self.folder = Path(path)

class Executor(LocalExecutor):
    def started(self, master):
        threading.Thread(target=self.follow, args=(master,), daemon=True).start()

    def follow(self, master):
        for line in sys.stdin:
            path = master.savepoint(line.strip(), stop=False, cancel=True).result().path
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

OLDER = """
import collections, runpy, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, 8, 0, "final", 0)
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""For `python -c`: runs the module that follows, as a Python that says it is another one."""


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

    def wait_for(self, condition, seconds: float = LONGEST_S):
        def checked():
            assert self.process.poll() is None, self.errors
            return condition()

        return wait_until(checked, seconds)

    def savepoint(self, folder: Path) -> str:
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        path = self.process.stdout.readline().split(" ", 1)[1].strip()
        self.process.wait(LONGEST_S)
        return path

    def stop(self) -> None:
        for pid in [*descendants(self.process.pid), self.process.pid]:
            kill(pid)
        self.process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path / "cluster")
    yield made
    made.stop()


@pytest.fixture
def start(cluster, tmp_path):
    drivers: list[Driver] = []
    library = library_of_tests(tmp_path / "library")
    python = bare_python(tmp_path / "bare")

    def run(watched: Watched, **options: str) -> Driver:
        settings = {
            "execution.target": "spark",
            "pystate.spark.master": cluster.url,
            "python.executable": str(python),
            "python.files": str(library),
            "spark.executor.memory": "512m",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **options,
        }
        drivers.append(Driver(tmp_path / f"driver-{len(drivers)}", watched, settings))
        return drivers[-1]

    yield run
    for driver in drivers:
        driver.stop()


def cores_of(engine: str, parallelism: int) -> int:
    """How many a job of a source and one more task needs."""
    return {MICRO_BATCH: 2 * parallelism + 2, REAL_TIME: parallelism + 2 * parallelism}[engine]


@pytest.mark.slow
@on_both_engines
def test_a_job_on_a_cluster_survives_an_executor_and_resumes_at_another_parallelism(cluster, start, tmp_path, engine):
    cluster.start(cores=(cores_of(engine, 3) + 1) // 2)
    watched = Watched(tmp_path)
    watched.add(3)
    recovering = {
        "execution.engine": engine,
        "execution.checkpointing.interval": "500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }
    first = start(watched, **recovering, **{"parallelism.default": "2"})
    first.wait_for(lambda: first.seen >= watched.pairs)
    first.wait_for(lambda: list(tmp_path.glob("checkpoints/*/chk-*/_metadata")))
    executors = cluster.executor_pids()
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


class Deleter:
    """Deletes the shuffle files of one executor as they appear."""

    def __init__(self, executor) -> None:
        self.executor = executor
        self.deleted = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Deleter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            for path in self.executor.shuffle_files():
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                    self.deleted += 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rows_whose_shuffle_files_vanish_under_a_running_job_are_neither_lost_nor_doubled(cluster, start, tmp_path):
    cluster.start()
    watched = Watched(tmp_path)
    options = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    }
    job = start(watched, **options)
    watched.add(3, words_per_file=3000, different=300)
    job.wait_for(lambda: job.seen >= watched.pairs)

    with Deleter(cluster.executors()[0]) as deleter:
        while deleter.deleted < 40:
            watched.add(6, words_per_file=3000, different=300)
            before = deleter.deleted
            job.wait_for(lambda before=before: deleter.deleted >= before + 20 or job.seen >= watched.pairs)
    assert deleter.deleted >= 40
    job.wait_for(lambda: job.seen >= watched.pairs)

    # an executor dies while epochs run
    watched.add(12, words_per_file=3000, different=300)
    attempt, seen = job.status["attempt"], len(job.seen)
    job.wait_for(lambda: len(job.seen) > seen)
    kill(cluster.executor_pids()[0])
    job.wait_for(lambda: job.status["attempt"] > attempt and job.seen >= watched.pairs)
    assert state_in(job.savepoint(tmp_path / "savepoints")) == dict(watched.words)
    assert job.seen == watched.pairs


@pytest.mark.slow
def test_a_cluster_with_too_few_cores_is_refused_in_a_sentence(cluster, start, tmp_path):
    del cluster.hosts[1]
    cluster.start(cores=2)
    # long enough for the executor to come: without it the master has given none
    driver = start(Watched(tmp_path), **{"parallelism.default": "2", "pystate.slot.startup-timeout": "30 s"})
    assert driver.process.wait(LONGEST_S) == 1
    assert "Parallelism 2 needs 6 cores (2 x parallelism + 2)" in driver.errors
    assert "has given this application 2, none are free; 4 are missing." in driver.errors
    assert "(workers of the cluster, and spark.cores.max where it is set)" in driver.errors
    assert driver.status["state"] == "FAILED"


@pytest.mark.slow
def test_the_second_real_time_job_on_a_cluster_is_told_how_many_cores_are_missing(cluster, start, tmp_path):
    cluster.start(cores=4)
    watched = Watched(tmp_path)
    watched.add(1)
    options = {"execution.engine": REAL_TIME, "parallelism.default": "2", "spark.cores.max": "6"}
    first = start(watched, **options, **{"execution.checkpointing.interval": "500 ms"})
    first.wait_for(lambda: first.seen >= watched.pairs)
    second = start(watched, **options, **{"pystate.slot.startup-timeout": "20 s"})  # executors know the master
    assert second.process.wait(LONGEST_S) == 1
    assert second.status["state"] == "FAILED"
    needs = "Parallelism 2 needs 6 cores (2 for slots and 4 for relays, one for each subtask of the real-time engine)"
    assert needs in second.errors
    assert "another application holds 6 (" in second.errors
    assert ", 2 are given to this one; 4 are missing." in second.errors
    watched.add(1)
    first.wait_for(lambda: first.seen >= watched.pairs)
    assert state_in(first.savepoint(tmp_path / "savepoints")) == dict(watched.words)


@pytest.mark.slow
def test_a_python_of_executors_that_can_not_run_the_job_is_refused_in_a_sentence(cluster, start, tmp_path):
    cluster.start()
    watched = Watched(tmp_path)
    whole = bare_python(tmp_path / "whole")
    lacking = bare_python(tmp_path / "lacking", without=("msgpack", "fsspec"))
    one_of_two = tmp_path / "one-of-two"
    one_of_two.write_text(f'#!/bin/sh\ncase "$PWD" in */0) exec {lacking} "$@";; *) exec {whole} "$@";; esac\n')
    one_of_two.chmod(0o755)
    older = tmp_path / "older"
    older.write_text(f"#!/bin/sh\nexec {whole} -c '{OLDER}' \"$@\"\n")
    older.chmod(0o755)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python, sentence in (
        (older, f"The executors on 127.0.0.1 run Python 3.8, the driver runs {here}; both must be the same."),
        (one_of_two, "lacks msgpack, fsspec."),
        (tmp_path / "nowhere", f"There is no Python at {tmp_path / 'nowhere'} on 127.0.0.1."),
    ):
        # parallelism 2 takes the cores of both executors, so that both are there when they are looked at
        driver = start(watched, **{"parallelism.default": "2", "python.executable": str(python)})
        assert driver.process.wait(LONGEST_S) == 1
        assert sentence in driver.errors
        assert driver.status["state"] == "FAILED"


@pytest.mark.slow
def test_on_a_cluster_that_asks_for_a_proof_nobody_gets_more_than_a_workers_pid(cluster, start, tmp_path):
    other_user = OtherUser.found("/tmp")  # noqa: S108
    if other_user is None:
        pytest.skip("neither setpriv nor unshare lets us be another user")
    secret = secrets.token_hex(16)
    cluster.ask_for_a_proof(secret)
    cluster.start(cores=2)
    watched = Watched(tmp_path)
    watched.add(3)
    asking = {"spark.authenticate": "true", "spark.authenticate.secret": secret}
    driver = start(watched, **asking, **{"parallelism.default": "1", "execution.checkpointing.interval": "500 ms"})
    driver.wait_for(lambda: driver.seen >= watched.pairs)

    below = [driver.process.pid, *cluster.executor_pids()]
    sockets = [found for pid in below for found in sockets_below(pid)]
    # Spark's daemon says which process it has forked for whoever comes; that one then asks for a proof
    given = given_away(sockets, other_user, lambda answer: is_refusal(answer) or len(answer) == WORKERS_PID)

    assert given == []
    shown = other_user.act("shown_by_processes", needles=[secret])
    assert shown == [], "the secret stands in no command line"
    watched.add(3)
    driver.wait_for(lambda: driver.seen >= watched.pairs)
    assert driver.status["attempt"] == 0
    assert secret not in driver.errors
    assert "spark.authenticate is not true" not in driver.errors
