"""Kafka to Kafka over jobs of both engines on Spark: each record counts once, whatever was killed, wherever it went on."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from tests.runtime.engines.real_time.driver.kafka_programs import Count, builder, itself, sink
from tests.servers.kafka_broker import spark_jars

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not spark_jars(), reason="there is no connector of Spark's to Kafka here: run `make servers`"),
]

ENGINES = {"micro": "micro-batch", "real": "real-time"}
RETRY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}


def counting(kafka, words, out):
    """Return the program: words of one topic, counted by key into another, exactly once."""

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = builder(kafka.address).set_topics(words).set_group_id("between").build()
        stream = env.from_source(source, None, "words").uid("words")
        counted = stream.key_by(itself, Types.STRING()).process(Count(), Types.STRING()).uid("count")
        counted.sink_to(sink(kafka.address, out)).uid("out")
        env.execute("between engines")

    return program


def options(engine, path, parallelism):
    found = {"execution.engine": ENGINES[engine], "execution.checkpointing.interval": "300 ms", **RETRY}
    found["parallelism.default"] = str(parallelism)
    return found if path is None else {**found, "execution.state-recovery.path": path}


@pytest.mark.parametrize("engines", [("micro", "real", "micro"), ("real", "micro", "real")], ids="-".join)
def test_each_record_counts_once_over_three_jobs(kafka, run_job, tmp_path, engines):
    words, out = kafka.new_topic(3), kafka.new_topic(2)
    path, expected = None, {}

    def seen():
        return Counter(message.value().decode() for message in kafka.read(out))

    def feed(job):
        number = len(expected) // 30 + 1
        for partition in range(3):
            kafka.send(words, [(None, f"{partition}.{word}") for word in range(10)], partition)
            expected.update({f"{partition}.{word}:{number}": 1 for word in range(10)})
        job.wait_for(lambda: seen() == expected)

    for engine, parallelism in zip(engines, (2, 1, 2), strict=True):
        job = run_job(counting(kafka, words, out), options(engine, path, parallelism))
        feed(job)
        os.kill(job.master.slot_pids[0], signal.SIGKILL)
        feed(job)
        path = job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
    assert seen() == expected
    ends = {(words, number): 60 for number in range(3)}
    assert kafka.group_offsets("between", words) == ends
    assert kafka.open_transactions(out) == []
