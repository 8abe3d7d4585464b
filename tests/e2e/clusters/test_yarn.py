"""`pystate run -t spark` on a real YARN, with checkpoints on its HDFS: shipping, savepoints, and what is killed there."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import FileSystemSettings, put_in_force
from tests.e2e.clusters.counting_job import CountingJob
from tests.e2e.clusters.spark_cluster import bare_python
from tests.faults.processes import command_of, is_slot, kill, needs_proc
from tests.servers import yarn_cluster
from tests.servers.yarn_cluster import YarnCluster, running_yarn_cluster
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1200)]


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


class Job(CountingJob):
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
        options = {
            "pystate.spark.master": "yarn",
            "spark.yarn.jars": f"local:{yarn_cluster.SPARK_JARS}/*",
            "spark.yarn.am.memory": "512m",
            "spark.executor.memoryOverhead": "1g",
            "execution.engine": engine,
        }
        super().__init__(root, options, f"hdfs://{cluster.hdfs.address}", python, "file://")

    def slots(self) -> list[int]:
        """Return the processes of its slots."""
        return [pid for pid in self.cluster.containers() if "pyspark.daemon" in command_of(pid) and is_slot(pid)]

    def end(self) -> str:
        path = super().end()
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
    """A node manager remembers its containers, as operators set it up; `end` reads the counts by a reader of its own."""
    chance = random.Random(7)
    job = start_job(start_cluster(settings={"yarn.nodemanager.recovery.enabled": "true"}), engine)
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
            wait_until(lambda: job.cluster.get("metrics")["clusterMetrics"]["activeNodes"] == 1)
            attempt -= 1  # its containers live on, and the job with them
        wait_until(lambda attempt=attempt: job.goes_on(attempt))
        job.feed()
        print(f"{kind}: attempt {job.attempt}, {sum(job.watched.words.values())} words counted")
    job.end()


def test_what_a_job_waits_for_is_said_in_words_of_yarn(start_cluster, start_job):
    job = start_job(start_cluster(memory_mb=2048))

    job.submit(2)
    told = wait_until(lambda: job.waits_for if "asked: " in job.waits_for and "RUNNING" in job.waits_for else "")
    assert "queue root.default, RUNNING; 0 of " in told
