"""`examples/kafka_pipeline.py` as an operator runs it; driver, job manager and broker are killed under it."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.e2e.commands.test_command_line import Shell
from tests.faults.campaigns.kafka_campaign import Outside
from tests.faults.processes import kill, needs_proc
from tests.faults.test_killed_drivers import Job
from tests.servers.kafka_broker import spark_jars
from tests.waiting import wait_until

pytestmark = [
    needs_proc,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not spark_jars(), reason="there is no connector of Spark's to Kafka here: run `make servers`"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_pipeline.py"


class Pipeline(Job):
    """The example, detached."""

    def __init__(self, shell, root, kafka):
        super().__init__(shell, root)
        self.kafka = kafka
        self.words, self.counts = kafka.new_topic(2, "words"), kafka.new_topic(2, "counts")
        self.outside = Outside(kafka, self.counts, lambda text: (json.loads(text)["word"], json.loads(text)["count"]))
        self.files = root / "files"
        self.sent: Counter[str] = Counter()
        self.chance = random.Random(1)
        self.options += ["-D", f"spark.jars={','.join(spark_jars())}"]

    def start(self, *options):
        arguments = ["-d", *self.options, *options, EXAMPLE, self.kafka.address, self.words, self.counts, self.files]
        self.id = self.shell("run", *arguments).stdout.strip()
        self.directory = self.shell.home / "jobs" / self.id
        return self

    def feed(self):
        words = [f"w{self.chance.randrange(5)}" for _ in range(100)]
        self.kafka.send(self.words, [(word, word) for word in words])
        self.sent.update(words)

    def all_came_out(self):
        return self.outside.look() == self.sent

    def all_in_files(self):
        rows = [
            tuple(row.values()) for path in self.files.rglob("part-*") for row in pq.ParquetFile(path).read().to_pylist()
        ]
        assert len(rows) == len(set(rows)), "no count is there twice"
        return set(rows) == {(word, count + 1) for word, total in self.sent.items() for count in range(total)}


@pytest.fixture
def pipeline(kafka, tmp_path):
    shell = Shell(tmp_path)
    yield Pipeline(shell, tmp_path, kafka)
    shell.close()


def test_driver_job_manager_and_broker_are_killed_and_the_job_rescaled(pipeline):
    pipeline.feed()
    pipeline.start("-p", "2")
    wait_until(pipeline.all_came_out)
    pipeline.feed()
    kill(pipeline.driver)
    wait_until(pipeline.all_came_out)
    pipeline.feed()
    pipeline.kill_job_manager()
    pipeline.kafka.kill()
    pipeline.kafka.start()
    pipeline.start_job_manager()
    pipeline.feed()
    wait_until(pipeline.all_came_out)
    pipeline.feed()
    path = pipeline.shell("stop", pipeline.id).stdout.strip()
    pipeline.start("-p", "3", "-s", path)
    pipeline.feed()
    wait_until(pipeline.all_came_out)
    wait_until(pipeline.all_in_files)
    assert pipeline.kafka.open_transactions(pipeline.counts) == []
