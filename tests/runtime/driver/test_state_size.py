"""The size of a subtask's state, as metrics tell it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pystate.runtime.driver.job_metrics import JobMetrics
from pystate.runtime.plan.chain import Chain
from pystate.runtime.plan.task import TaskInput, TaskSpec
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT, TOTAL


@pytest.fixture
def metrics():
    engine: Any = SimpleNamespace(job_samples=list, source_samples=dict)
    made = JobMetrics(engine)
    tasks = [
        TaskSpec(task.uid, task.name, task.vertex_id, parallelism, 128, [TaskInput(None)], None, Chain([], []))
        for task, parallelism in ((COUNT, 2), (TOTAL, 1))
    ]
    made.describe(SimpleNamespace(tasks=tasks, sources=[], parallelism=2))  # type: ignore[arg-type]
    return made


def sizes(metrics: JobMetrics, statistics: Statistics) -> dict[tuple[str, int], int]:
    return {
        (task.uid, subtask.index): sample.value
        for task in metrics.collect(statistics.tracker).tasks
        for subtask in task.subtasks
        for sample in subtask.samples
        if sample.name == "lastCheckpointStateSize"
    }


def test_it_is_the_whole_state_of_the_last_checkpoint_also_where_little_of_it_was_written(metrics):
    statistics = Statistics().run(1).trigger(2)
    for uid, subtask, size in (("count", 0, 10), ("count", 1, 20), ("total", 0, 30)):
        statistics.acknowledge(2, uid, subtask, checkpointed_size=1, state_size=size)
    assert sizes(metrics, statistics) == dict.fromkeys((("count", 0), ("count", 1), ("total", 0)), 5 * 9330)

    statistics.complete(2)

    assert sizes(metrics, statistics) == {("count", 0): 10, ("count", 1): 20, ("total", 0): 30}


def test_before_the_first_checkpoint_it_is_not_known(metrics):
    assert sizes(metrics, Statistics()) == {}


def test_a_subtask_tells_how_long_the_last_barrier_took_to_it_and_to_all_its_channels(metrics):
    statistics = Statistics().trigger(1)
    statistics.acknowledge(1, "count", 0, start_delay_ms=7, alignment_ms=30)
    statistics.acknowledge(1, "count", 1, start_delay_ms=8, alignment_ms=None)
    statistics.acknowledge(1, "total", 0)

    statistics.complete(1)

    (count, _) = metrics.collect(statistics.tracker).tasks
    told = [{sample.name: sample.value for sample in subtask.samples} for subtask in count.subtasks]
    assert [one.get("checkpointStartDelayNanos") for one in told] == [7_000_000, 8_000_000]
    assert [one.get("checkpointAlignmentTime") for one in told] == [30_000_000, None]
