"""Executors of a standalone cluster that are killed at each step of an epoch and its checkpoint, with all slots on them."""

from __future__ import annotations

import pytest

from tests.e2e.clusters.counting_job import PROGRAM, CountingJob
from tests.e2e.clusters.spark_cluster import Cluster, bare_python
from tests.engines import on_both_engines
from tests.faults.injection import IN_SLOTS, Action, Faults, Step
from tests.faults.processes import is_gone, kill, needs_proc
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(1800)]

_WITH_FAULTS = """
from pathlib import Path
from tests.faults.injection import Faults
FAULTS = Faults(Path({folder!r}))
"""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path / "cluster")
    yield made.start()
    made.stop()


@pytest.fixture
def faults(tmp_path):
    made = Faults(tmp_path / "faults")
    yield made
    made.disarm()


@pytest.fixture
def job(cluster, engine, faults, tmp_path):
    options = {
        "execution.engine": engine,
        "pystate.spark.master": cluster.url,
        "spark.executor.cores": "4",
        "execution.checkpointing.data-inline-threshold": "0",  # so that state has files of its own
    }
    python = ("-pyexec", bare_python(tmp_path / "bare"))
    made = CountingJob(tmp_path, options, str(tmp_path / "shared"), python, writes=True)
    program = _WITH_FAULTS.format(folder=str(faults.folder)) + PROGRAM.replace("Tally()", "Tally(faults=FAULTS)")
    made.program.write_text(program)
    yield made
    made.pystate.close()


@on_both_engines
def test_an_executor_killed_at_each_step_of_a_checkpoint_loses_and_doubles_nothing(cluster, job, faults, engine):
    job.start(2)
    for step in (Step.ELEMENT, *IN_SLOTS[engine]):
        attempt, executors = job.attempt, cluster.executor_pids()
        faults.arm(step, Action.EXECUTOR, after=5 if step is Step.ELEMENT else 0)
        job.watched.add(1)
        if step is Step.RESTORE:
            kill(executors[0])
        wait_until(lambda step=step: faults.struck(step))
        wait_until(lambda before=executors: any(map(is_gone, before)))
        wait_until(lambda attempt=attempt: job.goes_on(attempt), 2 * LONGEST_S)
        job.feed()
        job.wait_for_files()
    job.end()
    assert job.missing_and_doubled()[1] == 0
