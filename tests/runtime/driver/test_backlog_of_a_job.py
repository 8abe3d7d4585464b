"""How much a job's sources have that nobody has read."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.metrics.sample import MetricKind, MetricSample
from pystate.core.metrics.store import SubtaskMetricStore
from pystate.runtime.driver.job_metrics import JobMetrics
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec


def job(own: int, spark: int) -> JobMetrics:
    """A job with so many sources in slots, of two subtasks each, and so many that Spark reads."""
    engine: Any = SimpleNamespace(job_samples=list, source_samples=dict)
    made = JobMetrics(engine)
    tasks = [TaskSpec(f"own{n}", "a source", "c" * 32, 2, 128, [TaskInput(None)]) for n in range(own)]
    for task in tasks:
        task.head = OperatorSpec(task.uid, "numbers", OperatorKind.SOURCE, None)
    plan: Any = SimpleNamespace(tasks=tasks, own_sources=tasks, sources=[None] * spark, parallelism=2)
    made.describe(plan)
    made.slots.begin_attempt(0)
    return made


def report(metrics: JobMetrics, uid: str, subtask: int, left: float) -> None:
    partition = (("KafkaSourceReader", None), ("topic", "a"), ("partition", str(subtask)))
    samples = [MetricSample("pendingRecords", MetricKind.GAUGE, left, uid, groups) for groups in ((), partition)]
    metrics.slots.report(0, subtask, {uid: SubtaskMetricStore(subtask, "worker", samples).packed()})


def test_sources_in_slots_are_added_up():
    metrics = job(own=1, spark=0)
    assert metrics.backlog(None) is None, "nothing has been told yet"
    report(metrics, "own0", 0, 5)
    report(metrics, "own0", 1, 2)
    assert metrics.backlog(None) == 7


def test_it_is_not_known_where_one_subtask_does_not_know():
    metrics = job(own=1, spark=0)
    report(metrics, "own0", 0, 5)
    report(metrics, "own0", 1, math.nan)
    assert metrics.backlog(None) is None


def test_all_of_it_is_known_only_where_each_source_tells():
    metrics = job(own=2, spark=1)
    report(metrics, "own0", 0, 5)
    assert metrics.backlog(3) is None
    report(metrics, "own1", 0, 0)
    assert (metrics.backlog(3), metrics.backlog(None)) == (8, None)


def test_sources_that_spark_reads_have_what_spark_says():
    assert [job(own=0, spark=1).backlog(told) for told in (3, None)] == [3, None]
    assert job(own=0, spark=0).backlog(None) is None
