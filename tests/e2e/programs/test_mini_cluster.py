"""Whole jobs and a broker by the fixtures for users' tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystate.common import JobStatus, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.testing.kafka_broker import kafka_libraries, running_broker, why_no_broker
from pystate.testing.mini_cluster import MiniCluster
from tests.servers.kafka_broker import JARS, missing

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


@pytest.fixture
def cluster(spark, tmp_path):
    made = MiniCluster(spark, tmp_path)
    yield made
    made.close()


def counts(env):
    words = env.from_collection(["a", "b", "a"], Types.STRING())
    return words.key_by(str, Types.STRING()).process(Count(), PAIR).uid("count")


def test_a_job_of_a_test_has_its_results(cluster):
    env = StreamExecutionEnvironment.get_execution_environment()
    assert sorted(counts(env).execute_and_collect()) == [("a", 1), ("a", 2), ("b", 1)]
    assert list((cluster.directory / "home" / "jobs").iterdir())


def test_the_example_of_the_page_runs(cluster):
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text("utf-8")
    (block,) = (one for one in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "cluster" in one)
    space = {"Types": Types, "Count": Count}
    exec(compile(block, "docs/testing.md", "exec"), space)  # noqa: S102 - it is ours
    space["test_words_are_counted"](cluster)


def test_what_still_runs_after_the_test_is_cancelled_and_the_next_test_has_its_own(spark, tmp_path):
    first = MiniCluster(spark, tmp_path / "first")
    first.set("parallelism.default", "2")
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == 2
    rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    env.from_data_frame(rate, "numbers").map(lambda row: row.value, Types.LONG()).print()
    job = env.execute_async("endless")
    first.close()
    assert job.get_job_status().result() is JobStatus.CANCELED

    second = MiniCluster(spark, tmp_path / "second")
    try:
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 1
    finally:
        second.close()


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_broker_takes_and_gives_records(tmp_path, monkeypatch):
    home = tmp_path / "kafka"
    home.mkdir()
    (home / "libs").symlink_to(JARS)
    monkeypatch.setenv("KAFKA_HOME", str(home))
    libraries = kafka_libraries()
    assert libraries == Path(home, "libs")
    assert why_no_broker(libraries) is None
    folder = tmp_path / "broker"
    folder.mkdir()
    with running_broker(folder, libraries) as broker:
        topic = broker.new_topic()
        broker.send(topic, [("k", "v")])
        assert [(one.key(), one.value()) for one in broker.read(topic)] == [(b"k", b"v")]
