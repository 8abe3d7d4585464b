"""Busy, idle and back-pressured time of a subtask that is not fed by epochs."""

from __future__ import annotations

import time

from pystate.common import Types
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics


def test_times_add_up_to_the_time_that_has_passed():
    metrics = TaskMetrics(TaskSpec("a", "a", "a", 1, 1, [TaskInput(Types.LONG(), None)]))
    metrics.begin_stream()
    with metrics.idle:
        time.sleep(0.05)
    metrics.blocked_ns += 30_000_000
    began = time.perf_counter()
    time.sleep(0.06)
    values = {sample.name: sample.value for sample in metrics.collect(0.0)}
    assert values["accumulateIdleTimeMs"] >= 50
    assert values["accumulateBackPressuredTimeMs"] == 30
    passed = (time.perf_counter() - began) * 1000
    assert 60 - 30 - 1 <= values["accumulateBusyTimeMs"] <= passed - 30 + 1
