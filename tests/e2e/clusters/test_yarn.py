"""`pystate run -t spark` on a real YARN, with checkpoints on its HDFS: shipping, savepoints, and what is killed there."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import FileSystemSettings, put_in_force
from pystate.common.files.home import read_json
from tests.e2e.clusters.spark_cluster import LOOPBACK, bare_python, library_of_tests
from tests.e2e.clusters.test_run_on_a_cluster import Operator
from tests.faults.processes import command_of, is_slot, kill, needs_proc
from tests.faults.workload import Watched, check_tallies
from tests.servers import yarn_cluster
from tests.servers.yarn_cluster import YarnCluster, running_yarn_cluster
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]

PROGRAM = """
import sys
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.workload import COUNTED, Keeping, Tally

env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource(sys.argv[1], monitor_interval_ms=500, max_files_per_epoch=3)
words = env.from_source(source, None, "words").uid("words").key_by(lambda word: word, key_type=Types.STRING())
counted = words.process(Tally(), COUNTED).uid("count")
counted.add_sink(Keeping()).uid("kept")
counted.print()
env.execute("count")
"""


@pytest.fixture
def start_cluster(tmp_path, monkeypatch):
    """Start a cluster, which the test and the commands it calls know by HADOOP_CONF_DIR."""
    reason = yarn_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    started = []

    def start(**options: object) -> YarnCluster:
        context = running_yarn_cluster(tmp_path / "cluster", **options)
        started.append(context)
        cluster = context.__enter__()
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        put_in_force(FileSystemSettings.of(Configuration({"env.hadoop.conf.dir": str(cluster.conf_dir)})))
        return cluster

    yield start
    put_in_force(None)
    for context in started:
        context.__exit__(None, None, None)


def options_on(cluster: YarnCluster, engine: str) -> dict[str, str]:
    """Return the options of a job on a cluster, but for its parallelism."""
    place = f"hdfs://{cluster.hdfs.address}"
    return {
        "pystate.spark.master": "yarn",
        "pystate.slot.startup-timeout": "180 s",
        "spark.yarn.jars": f"local:{yarn_cluster.SPARK_JARS}/*",
        "spark.yarn.am.memory": "512m",
        "spark.executor.instances": "2",
        "spark.executor.cores": "5",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "1g",
        "execution.engine": engine,
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{place}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{place}/savepoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }


class Job:
    """A job that counts the words in a folder, on YARN.

    Args:
        root: For its files.
        cluster: The YARN.
        engine: What runs it.
        python: What runs its executors' Python, as options of `run`.
    """

    def __init__(
        self, root: Path, cluster: YarnCluster, engine: str = "micro-batch", python: tuple[object, ...] = ()
    ) -> None:
        self.cluster = cluster
        self.watched = Watched(root)
        self.pystate = Operator(root, LOOPBACK)
        self.program = root / "program" / "job.py"
        self.program.parent.mkdir()
        self.program.write_text(PROGRAM)
        options = options_on(cluster, engine)
        settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        self._run = ("run", "-d", "-t", "spark", "-pyfs", library_of_tests(root / "library"), *python, *settings)
        self.job_id = ""

    def submit(self, parallelism: int, savepoint: str | None = None) -> None:
        """Submit it, and don't wait."""
        start = () if savepoint is None else ("-s", savepoint)
        words = (*self._run, "-p", parallelism, *start, "--timeout", "1", self.program, f"file://{self.watched.folder}")
        told = self.pystate.python("-m", "pystate_cli", *words).stderr
        submitted = re.search("has been submitted with JobID (.*)", told)
        assert submitted is not None, told
        self.job_id = submitted[1]

    def start(self, parallelism: int, savepoint: str | None = None) -> None:
        """Start it, and wait until it has counted."""
        self.submit(parallelism, savepoint)
        wait_until(lambda: self.goes_on(-1))
        self.feed()

    def feed(self) -> None:
        """Give it some words, and wait until all there are have been counted."""
        self.watched.add(3)
        word, count = self.watched.words.most_common(1)[0]
        self.pystate.wait_for(self.job_id, f"({word},{count})")

    def goes_on(self, attempt: int) -> bool:
        """Return whether it runs in a later attempt."""
        status = self.pystate.status(self.job_id)
        return status["state"] == "RUNNING" and status["attempt"] > attempt

    @property
    def attempt(self) -> int:
        """The attempt that runs."""
        return int(self.pystate.status(self.job_id)["attempt"])

    @property
    def application_id(self) -> str:
        """YARN's id of its application."""
        return str((read_json(self.pystate.home.job(self.job_id).status) or {})["application_id"])

    def slots(self) -> list[int]:
        """Return the processes of its slots."""
        return [pid for pid in self.cluster.containers() if "pyspark.daemon" in command_of(pid) and is_slot(pid)]

    def end(self) -> str:
        """Cancel it with a savepoint, whose counts must be right; return where that is."""
        path = self.pystate("cancel", "-s", f"hdfs://{self.cluster.hdfs.address}/savepoints", self.job_id)
        check_tallies(path, self.watched.words)
        left = self.cluster.hdfs.names_in("/") - {"checkpoints", "savepoints", "user"}
        assert not left, "Spark's own files of the driver are on its machine"
        return path


@pytest.fixture
def start_job(tmp_path):
    """Make a job, see `Job`."""
    made: list[Job] = []

    def start(*given: object) -> Job:
        made.append(Job(tmp_path, *given))
        return made[-1]

    yield start
    for job in made:
        job.pystate.close()


def test_a_job_loses_an_executor_and_its_application_and_is_resumed_wider(start_cluster, start_job, tmp_path):
    cluster = start_cluster()
    python = bare_python(tmp_path / "bare")
    archive = shutil.make_archive(str(tmp_path / "environment"), "gztar", python.parent, python.name)
    job = start_job(cluster, "micro-batch", ("-pyarch", f"{archive}#packed", "-pyexec", "packed/python"))
    job.start(2)
    first = job.application_id
    assert first.startswith("application_")
    saved = job.pystate("savepoint", "-yid", first)
    assert saved.splitlines()[-1].startswith(f"hdfs://{cluster.hdfs.address}/savepoints/savepoint-")
    refused = job.pystate.python("-m", "pystate_cli", "savepoint", "-yid", f"{first[:-4]}9999")
    assert refused.returncode == 1
    assert f'No job is the Spark application "{first[:-4]}9999".' in refused.stderr

    attempt = job.attempt
    kill(cluster.executors()[0])
    wait_until(lambda: job.goes_on(attempt))
    job.feed()

    attempt = job.attempt
    cluster.yarn("application", "-kill", first)
    wait_until(lambda: job.goes_on(attempt) and job.application_id != first)
    job.feed()
    assert "was killed by user" in job.pystate("exceptions", job.job_id), "YARN's own words"

    savepoint = job.end()
    job.start(3, savepoint)
    job.end()
    wait_until(lambda: not [one for one in cluster.applications() if one["state"] == "RUNNING"])


@pytest.mark.parametrize("remembers", [False, True], ids=["forgets", "remembers"])
def test_a_node_manager_is_killed_and_started_again(start_cluster, start_job, remembers):
    job = start_job(start_cluster(settings={"yarn.nodemanager.recovery.enabled": str(remembers).lower()}))
    job.start(2)
    attempt, executors = job.attempt, set(job.cluster.executors())

    job.cluster.kill_node_manager()
    assert set(job.cluster.executors()) == executors, "containers live on"
    job.feed()
    job.cluster.start_node_manager()
    if remembers:
        wait_until(lambda: job.cluster.get("metrics")["clusterMetrics"]["activeNodes"] == 1)
    else:
        wait_until(lambda: job.goes_on(attempt))
    job.feed()
    if remembers:
        assert (job.attempt, set(job.cluster.executors())) == (attempt, executors)
    job.end()


@pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
def test_a_campaign_of_kills_loses_and_doubles_nothing(start_cluster, start_job, engine):
    chance = random.Random(7)
    job = start_job(start_cluster(), engine)
    job.start(2)
    kinds = ["executor", "slot", "application", "node manager"]
    for kind in chance.sample(kinds, len(kinds)) + chance.sample(kinds, len(kinds)):
        attempt = job.attempt
        job.watched.add(chance.randrange(1, 4))
        if kind == "executor":
            kill(chance.choice(job.cluster.executors()))
        elif kind == "slot":
            kill(chance.choice(job.slots()))
        elif kind == "application":
            job.cluster.yarn("application", "-kill", job.application_id)
        else:
            job.cluster.kill_node_manager()
            job.cluster.start_node_manager()
        wait_until(lambda attempt=attempt: job.goes_on(attempt))
        job.feed()
    job.end()


def test_what_a_job_waits_for_is_said_in_words_of_yarn(start_cluster, start_job):
    job = start_job(start_cluster(memory_mb=2048))

    def waits_for() -> str:
        return str(job.pystate.status(job.job_id).get("waits_for") or "")

    job.submit(2)
    told = wait_until(lambda: waits_for() if "asked: " in waits_for() and "RUNNING" in waits_for() else "")
    assert "queue root.default, RUNNING; 0 of " in told
