"""How far event time is in a job, as its subtasks report it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.metrics.sample import counter, gauge
from pystate.core.metrics.store import SubtaskMetricStore
from pystate.runtime.driver.job_metrics import JobMetrics
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec


def job() -> JobMetrics:
    """A job of two tasks whose subtasks report."""
    engine: Any = SimpleNamespace(job_samples=list, source_samples=dict)
    made = JobMetrics(engine)
    tasks = [TaskSpec(uid, f"the {uid}", "c" * 32, 2, 128, [TaskInput(None)]) for uid in ("count", "total")]
    plan: Any = SimpleNamespace(tasks=tasks, sources=[], parallelism=2)
    made.describe(plan)
    made.slots.begin_attempt(0)
    return made


def report(metrics: JobMetrics, uid: str, subtask: int, watermark: int | None) -> None:
    samples = [counter("numRecordsIn", 1)]
    if watermark is not None:
        samples.append(gauge("currentInputWatermark", watermark))
    metrics.slots.report(0, subtask, {uid: SubtaskMetricStore(subtask, "worker", samples).packed()})


def test_event_time_is_that_of_the_subtask_that_is_furthest_after():
    metrics = job()
    assert metrics.event_time() == {}
    report(metrics, "count", 0, None)
    assert metrics.event_time() == {}, "no times come to it"
    report(metrics, "total", 0, 7)
    report(metrics, "count", 0, 9)
    assert metrics.event_time() == {"watermark": 7, "watermark_task": "the total"}
    report(metrics, "count", 1, -(1 << 63))
    assert metrics.event_time() == {"watermark": -(1 << 63), "watermark_task": "the count"}


def test_a_source_is_as_far_as_what_it_hands_on():
    metrics = job()
    plan: Any = metrics._plan
    plan.tasks[0].head = OperatorSpec("count", "numbers", OperatorKind.SOURCE, None)
    samples = [gauge("currentInputWatermark", -(1 << 63)), gauge("currentOutputWatermark", 8)]
    metrics.slots.report(0, 0, {"count": SubtaskMetricStore(0, "worker", samples).packed()})
    report(metrics, "total", 0, 9)
    assert metrics.event_time() == {"watermark": 8, "watermark_task": "the count"}
