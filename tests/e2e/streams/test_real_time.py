"""Jobs on the real-time engine on real Spark: killed slots, savepoints from engine to engine, barriers that overtake."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from tests.faults.workload import COUNTED, RECOVERING, Keeping, kept_in

LONG = Types.LONG()
REAL_TIME = {**RECOVERING, "execution.engine": "real-time", "execution.checkpointing.interval": "200 ms"}


SECOND_SPLIT = 1 << 62
"""Where the second of two subtasks of an endless generator begins."""


class SlowlyKeeping(Keeping):
    """Takes a millisecond for each element, however many wait."""

    def invoke(self, value, context=None):
        time.sleep(0.001)
        super().invoke(value, context)


def same(number):
    return number


def program_of(count, per_second, sink=Keeping):
    def program():
        environment = StreamExecutionEnvironment.get_execution_environment()
        source = DataGeneratorSource(same, count, RateLimiterStrategy.per_second(per_second), LONG)
        numbers = environment.from_source(source, None, "numbers").uid("numbers")
        pairs = numbers.map(lambda number: ("n", number), COUNTED)
        pairs.rebalance().add_sink(sink()).uid("kept")
        environment.execute("real time")

    return program


def completed(job, more):
    """Return what says that so many more checkpoints are complete."""
    before = job.master.coordinator.statistics()["counts"]["completed"]
    return lambda: job.master.coordinator.statistics()["counts"]["completed"] >= before + more


def check_once(path):
    """Return how many numbers are kept: of each split all from its first on, each once."""
    kept = Counter(number for _, number in kept_in(path))
    assert set(kept.values()) == {1}, "doubled 0"
    for first in (0, SECOND_SPLIT):
        found = sorted(number - first for number in kept if (number >= SECOND_SPLIT) == (first > 0))
        assert found == list(range(len(found))), "lost 0"
    return len(kept)


def test_a_killed_slot_and_savepoints_from_engine_to_engine(run_job, tmp_path):
    options, seen = {**REAL_TIME, "parallelism.default": "2"}, [0]
    for engine, parallelism in (("real-time", 2), ("micro-batch", 1), ("real-time", 1)):
        options |= {"execution.engine": engine, "parallelism.default": str(parallelism)}
        job = run_job(program_of(None, 300), options)
        job.wait_for(lambda job=job: job.status["state"] == "RUNNING")
        # a job that goes on from a snapshot has checkpoints before it has read anything
        job.wait_for(lambda job=job: job.master.io_metrics("kept")["read-bytes"] > 0)
        job.wait_for(completed(job, 2))
        if len(seen) == 1:
            os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
            job.wait_for(lambda job=job: job.status["attempt"] > 0 and job.status["state"] == "RUNNING")
            job.wait_for(completed(job, 2))
        path = job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
        seen.append(check_once(path))
        assert seen[-1] > seen[-2]
        options["execution.state-recovery.path"] = path


@pytest.mark.slow
def test_barriers_overtake_what_a_slow_sink_has_before_it(run_job, tmp_path):
    options = {**REAL_TIME, "parallelism.default": "2", "execution.checkpointing.unaligned.enabled": "true"}
    job = run_job(program_of(None, 3000, SlowlyKeeping), options)
    job.wait_for(lambda: job.status["state"] == "RUNNING")

    def overtaking():
        latest = job.master.coordinator.latest_snapshot()
        return latest is not None and latest.metadata.has_data_in_flight

    for attempt in range(2):
        job.wait_for(overtaking)
        job.wait_for(completed(job, 3))
        os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
        job.wait_for(lambda attempt=attempt: job.status["attempt"] > attempt and job.status["state"] == "RUNNING")
    job.wait_for(completed(job, 2))
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert check_once(path) > 0
