"""Spark's own record of stages and tasks, of real jobs."""

import os

import pytest
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.spark.stage_store import StageStore
from pystate.runtime.engines.micro_batch.spark.stage_times import alignment_ms

ROWS = 1000


@pytest.fixture(autouse=True)
def as_in_a_job(spark):
    """Adaptive execution, which jobs turn off, runs each stage as a job of its own."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


def run(spark, after):
    """Run a job with a shuffle between two stages; return the number of the stage after it."""
    store = StageStore(spark.sparkContext)
    frame = spark.range(0, ROWS, 1, 3).repartitionById(2, F.expr("cast(id % 2 AS INT)")).mapInArrow(after, "id LONG")
    before = set(stages(spark))
    frame.write.format("noop").mode("overwrite").save()
    store.catch_up(30)
    return store, max(set(stages(spark)) - before)


def stages(spark):
    jobs = spark.sparkContext.statusTracker()
    return [stage for job in jobs.getJobIdsForGroup(None) for stage in jobs.getJobInfo(job).stageIds]


def read_all(batches):
    yield from batches


def test_a_stage_that_ran_at_the_first_try_is_told_by_its_sums(spark):
    store, after = run(spark, read_all)
    reads, writes = store.stage(after), store.stage(after - 1)
    assert (reads.is_clean, reads.partitions, reads.read, reads.tasks) == (True, 2, ROWS, ()), reads
    assert (writes.is_clean, writes.partitions, writes.written) == (True, 3, ROWS), writes
    assert len(store.ends(after - 1)) == 3
    assert 0 <= alignment_ms(store.ends(after - 1), 0) < 600_000


def test_the_attempts_of_a_task_that_failed_are_told_one_by_one(spark, tmp_path):
    marker = str(tmp_path / "failed-once")

    def fails_once(batches):
        context = TaskContext.get()
        if context.partitionId() == 1 and not os.path.exists(marker):
            with open(marker, "w") as file:
                file.write(str(context.taskAttemptId()))
            raise ValueError(marker)
        yield from batches

    store, after = run(spark, fails_once)
    facts = store.stage(after)
    assert (facts.is_clean, facts.partitions) == (False, 2)
    with open(marker) as file:
        failed = int(file.read())
    outcomes = {task.task_attempt_id: (task.partition, task.outcome) for task in facts.tasks}
    assert outcomes.pop(failed) == (1, TaskOutcome.FAILED)
    assert sorted(outcomes.values()) == [(0, TaskOutcome.SUCCEEDED), (1, TaskOutcome.SUCCEEDED)], facts
    assert sum(task.read for task in facts.tasks if task.outcome is TaskOutcome.SUCCEEDED) == ROWS
    assert store.outcome(after, failed) is TaskOutcome.FAILED
    assert store.outcome(after, next(iter(outcomes))) is TaskOutcome.SUCCEEDED


def test_what_spark_does_not_know_is_unknown(spark):
    store = StageStore(spark.sparkContext)
    assert store.outcome(1 << 30, 1) is TaskOutcome.UNKNOWN
    assert not store.stage(1 << 30).is_clean
    assert store.ends(1 << 30) == []


@pytest.mark.parametrize(
    ("ends", "triggered", "expected"), [([], 0, None), ([100, 350, 200], 0, 250), ([100, 350], 300, 50), ([100], 300, 0)]
)
def test_the_alignment_runs_from_the_first_end_to_the_last_and_not_from_before_the_trigger(ends, triggered, expected):
    assert alignment_ms(ends, triggered) == expected
