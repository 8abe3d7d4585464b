"""`pystate doctor --target yarn`, by answers of Hadoop 3.4.2's resource manager."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.finding import Health
from pystate_cli.doctor.yarn import check_yarn

PAGE = "http://rm:8088/ws/v1/cluster"
SOUND = {
    "spark.executor.cores": "4",
    "spark.executor.memoryOverhead": "1g",
    "spark.yarn.archive": "hdfs:///jars.zip",
    "execution.checkpointing.dir": "hdfs:///checkpoints",
    "spark.driver.host": "10.0.0.1",
}
QUEUES = [{"queuePath": "root.default", "state": "RUNNING"}, {"queuePath": "root.night", "state": "STOPPED"}]


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """Return what is found with settings, by name; `changes` replaces answers of the resource manager."""
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    name = "yarn.resourcemanager.hostname"
    site = f"<configuration><property><name>{name}</name><value>rm</value></property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(site)

    def find(settings=SOUND, **changes):
        answers = {
            "info": {"clusterInfo": {"state": "STARTED", "hadoopVersion": "3.4.2"}},
            "metrics": {"clusterMetrics": {"activeNodes": 2, "availableMB": 8192, "totalMB": 16384}},
            "scheduler": {"scheduler": {"schedulerInfo": {"queueName": "root", "queues": {"queue": QUEUES}}}},
            **changes,
        }
        fetch = {f"{PAGE}/{name}": answer for name, answer in answers.items()}.get
        return {one.name: one for one in check_yarn(Configuration({"pystate.spark.master": "yarn", **settings}), fetch)}

    return find


def test_a_cluster_that_is_ready(findings, tmp_path):
    found = findings()
    assert {one.health for one in found.values()} == {Health.OK}, found
    assert found["hadoop settings"].text == str(tmp_path / "yarn-site.xml")
    assert found["yarn"].text == "Hadoop 3.4.2 at http://rm:8088, STARTED; nodes: 2, 8192 of 16384 MB free"
    assert found["queue"].text == "default, RUNNING"
    assert found["containers"].text == "a container of 2048 MB for each, 1024 of them for Python and its state"


@pytest.mark.parametrize(
    ("settings", "changes", "name", "health", "text"),
    [
        ({}, {"info": None}, "yarn", Health.FAIL, "no resource manager answers at http://rm:8088"),
        ({}, {"metrics": None}, "yarn", Health.FAIL, "it has no node managers"),
        ({"spark.yarn.queue": "day"}, {}, "queue", Health.FAIL, "no queue day; there are root.default, root.night"),
        ({"spark.yarn.queue": "root.night"}, {}, "queue", Health.FAIL, "is STOPPED"),
        ({"parallelism.default": "4"}, {}, "executors", Health.FAIL, "2 x 4 cores are asked"),
        ({"spark.executor.memory": "9g"}, {}, "containers", Health.FAIL, "YARN gives 8192 at most"),
        (
            {"execution.checkpointing.dir": "/home/me"},
            {},
            "shared storage",
            Health.WARN,
            "/home/me: other machines must see",
        ),
        (
            {"execution.checkpointing.savepoint-dir": "file:/saved"},
            {},
            "shared storage",
            Health.WARN,
            "/saved: other machines",
        ),
        ({"execution.checkpointing.dir": "abfs://a@b/c"}, {}, "shared storage", Health.OK, "abfs://a@b/c is the same place"),
    ],
)
def test_what_a_cluster_lacks_is_named(findings, settings, changes, name, health, text):
    found = findings({**SOUND, **settings}, **changes)[name]
    assert found.health is health
    assert text in found.text


@pytest.mark.parametrize(
    ("left_out", "name", "text"),
    [
        ("spark.yarn.archive", "spark's jars", "each application uploads"),
        ("spark.executor.memoryOverhead", "containers", "a container of 1408 MB"),
    ],
)
def test_what_would_be_slow_or_killed_is_warned_of(findings, left_out, name, text):
    found = findings({key: value for key, value in SOUND.items() if key != left_out})[name]
    assert found.health is Health.WARN
    assert text in found.text


def test_queues_of_other_schedulers(findings):
    fair = {"scheduler": {"schedulerInfo": {"rootQueue": {"childQueues": {"queue": [{"queueName": "root.default"}]}}}}}
    fifo = {"scheduler": {"schedulerInfo": {"type": "fifoScheduler", "qstate": "RUNNING"}}}
    assert findings(scheduler=fair)["queue"].text == findings(scheduler=fifo)["queue"].text == "default, RUNNING"


def test_without_hadoops_settings(findings, monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (found,) = findings().values()
    assert (found.health, found.text) == (
        Health.FAIL,
        "pystate.spark.master = yarn needs Hadoop's settings, but HADOOP_CONF_DIR is not set",
    )


def test_an_unknown_target_is_refused(pystate):
    outcome = pystate("doctor", "--target", "mesos")
    assert outcome.code == 2
    assert "mesos" in outcome.err
