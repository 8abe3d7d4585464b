"""A standalone master that is killed and started again under a running job, and cores that another application holds."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pystate.common.files.home import read_json
from tests.e2e.clusters.spark_cluster import LOOPBACK, ROOT, Cluster, bare_python, library_of_tests
from tests.e2e.clusters.test_run_on_a_cluster import Operator
from tests.faults.processes import descendants, kill, needs_proc
from tests.faults.workload import Watched, state_in
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(390)]

PROGRAM = """
import sys
from pathlib import Path
from pystate.common.files.home import write_json
from tests.faults.workload import Sink, counting

class Folder:
    folder = Path(sys.argv[1])

sink = Sink()

def keep(frame, epoch):
    sink(frame, epoch)
    write_json(Path(sys.argv[2]), sorted(sink.rows))

counting(Folder, keep)()
"""

HOLDER = """
import sys
from pyspark.sql import SparkSession
master, done = sys.argv[1:]
builder = SparkSession.builder.master(master).appName("holder").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.executor.memory", "512m").config("spark.ui.enabled", "false").getOrCreate()
open(done, "w").close()
sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path, request):
    made = Cluster(tmp_path / "cluster", remembers=getattr(request, "param", False))
    yield made.start()
    made.stop()


@pytest.fixture
def pystate(tmp_path):
    made = Operator(tmp_path, LOOPBACK)
    yield made
    made.close()


@pytest.fixture
def start(cluster, pystate, tmp_path):
    library, python = library_of_tests(tmp_path / "library"), bare_python(tmp_path / "bare")
    program = tmp_path / "program" / "job.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    options = {
        "pystate.spark.master": cluster.url,
        "spark.master.ui.port": str(cluster.web_port),
        "spark.executor.memory": "512m",
        "pystate.slot.startup-timeout": "120 s",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "4",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }
    words = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]

    def run(watched: Watched) -> str:
        where = ("-d", "-t", "spark", "-pyfs", library, "-pyexec", python, "-p", 2)
        return pystate("run", *where, *words, program, watched.folder, tmp_path / "seen.json")

    return run


def seen(tmp_path: Path) -> set[tuple[str, int]]:
    return {(word, count) for word, count in read_json(tmp_path / "seen.json") or []}


@pytest.mark.parametrize("cluster", [False, True], indirect=True, ids=["forgetful", "remembering"])
def test_a_job_goes_on_when_the_master_was_restarted(cluster, pystate, start, tmp_path):
    remembers = "recoveryMode" in cluster.environment.get("SPARK_DAEMON_JAVA_OPTS", "")
    watched = Watched(tmp_path)
    watched.add(3)
    job = start(watched)
    wait_until(lambda: seen(tmp_path) >= watched.pairs)
    wait_until(lambda: list(tmp_path.glob("checkpoints/*/chk-*/_metadata")))
    before = pystate.status(job)
    driver, executors = pystate.driver(job), cluster.executor_pids()
    assert len(executors) == 2

    cluster.kill_master()
    watched.add(1)
    wait_until(lambda: seen(tmp_path) >= watched.pairs)  # nobody needs a master who has all it needs
    cluster.start_master()
    if not remembers:
        wait_until(lambda: not set(executors) & set(cluster.executor_pids()))
        wait_until(lambda: pystate.status(job)["application_id"] != before["application_id"])
        assert "not known to the Spark master any more" in pystate.status(job)["failures"][0]["message"]
    else:
        wait_until(lambda: "Recovery complete" in (cluster.root / "master.log").read_text())
    counted = dict(watched.words)
    watched.add(3)
    added = {(word, count) for word, count in watched.words.items() if count != counted.get(word)}
    wait_until(lambda: seen(tmp_path) >= added)
    after = pystate.status(job)
    savepoint = pystate("cancel", "-s", tmp_path / "savepoints", job)
    assert state_in(savepoint) == dict(watched.words)
    if remembers:
        assert (after["attempt"], after["application_id"]) == (0, before["application_id"])
        assert pystate.driver(job) == driver
    else:
        assert after["attempt"] <= 3, "it is noticed, not waited for"


def test_cores_that_another_application_holds_are_named_in_seconds(cluster, pystate, start, tmp_path):
    watched = Watched(tmp_path)
    watched.add(1)
    done = tmp_path / "holds"
    command = [sys.executable, "-c", HOLDER, cluster.url, str(done)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, env=cluster.environment, cwd=ROOT)
    try:
        wait_until(done.exists)  # the master gives its cores away as it registers an application
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(start, watched)
            held = f"the Spark master {cluster.url} has 8 cores, none free: another application holds them (holder (app-"
            logs = pystate.home.root.joinpath("jobs")
            wait_until(lambda: any(held in log.read_text() for log in logs.glob("*/job.log")))
            assert not started.done(), "it still waits for them"
            holder.communicate(timeout=LONGEST_S)  # the end of its input ends it
            job = started.result(LONGEST_S)
    finally:
        for pid in [*descendants(holder.pid), holder.pid]:
            kill(pid)
        holder.wait()
    assert pystate.status(job)["attempt"] == 0
    pystate("cancel", job)
