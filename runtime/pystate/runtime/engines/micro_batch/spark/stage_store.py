"""Reads stages and tasks from Spark's status store, which works without the UI.

A listener fills the store, so it may lag slightly behind the job; events come in the order in which Spark's scheduler
created them, so the end of a task attempt is stored before the start of the next attempt of the same task.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.spark.input_proof import StageFacts, TaskFacts

if TYPE_CHECKING:
    from pyspark import SparkContext

_MAX_TASKS = 1_000_000
_LOOKED_AT = 4
_OUTCOMES = {"RUNNING": TaskOutcome.RUNNING, "SUCCESS": TaskOutcome.SUCCEEDED}


class StageStore:
    """Reads the status store, one stage per call: each call into the JVM costs a third of a millisecond.

    Args:
        context: The Spark context.
    """

    def __init__(self, context: SparkContext) -> None:
        scala: Any = context._jsc.sc()  # noqa: SLF001 - pyspark has no public way to the status store
        jvm: Any = context._jvm  # noqa: SLF001
        self._bus = scala.listenerBus()
        self._store = scala.statusStore()
        self._tracker: Any = context._jsc.statusTracker()  # noqa: SLF001
        self._json = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        # converts these objects to JSON as Spark's own REST API does
        self._json.registerModule(getattr(getattr(jvm, _SCALA_MODULE), "MODULE$"))

    def catch_up(self, timeout_s: float) -> None:
        """Wait until the store has all events so far, or until the timeout."""
        deadline = time.monotonic() + timeout_s
        while (left_ms := int((deadline - time.monotonic()) * 1000)) > 0:
            try:
                self._bus.waitUntilEmpty(min(left_ms, 1000))
            except Exception as error:
                # py4j raises any error of the JVM
                if "TimeoutException" not in str(error):
                    raise
            else:
                return

    def stage(self, stage_id: int) -> StageFacts:
        """Return what is known about a stage, all its attempts taken together."""
        last = self._last_attempt(stage_id)
        if last is None:
            return StageFacts(stage_id, 1, is_clean=False, read=0, written=0)
        partitions = last["numTasks"]
        clean = (
            last["attemptId"] == 0
            and last["status"] == "COMPLETE"
            and last["numCompleteTasks"] == partitions
            and not last["numFailedTasks"] + last["numKilledTasks"] + last["numActiveTasks"]
        )
        if clean:
            return StageFacts(stage_id, partitions, True, last["shuffleReadRecords"], last["shuffleWriteRecords"])
        tasks = [task for attempt in range(last["attemptId"] + 1) for task in self._tasks(stage_id, attempt)]
        if last["attemptId"] > 0:  # a later attempt runs only the missing partitions
            partitions = 1 + max((task.partition for task in tasks), default=0)
        read, written = sum(task.read for task in tasks), sum(task.written for task in tasks)
        return StageFacts(stage_id, partitions, False, read, written, tuple(tasks))

    def stages_of(self, job_group: str, stage_id: int) -> list[int]:
        """Return all stages of the job that a stage belongs to, in order; searches the newest jobs of the group."""
        tracker = self._tracker
        jobs = tracker.getJobIdsForGroup(job_group)
        newest = sorted({jobs[at] for at in (*range(min(_LOOKED_AT, len(jobs))), *range(-min(_LOOKED_AT, len(jobs)), 0))})
        for job in reversed(newest):
            stages = list(tracker.getJobInfo(job).stageIds())
            if stage_id in stages:
                return sorted(int(stage) for stage in stages)
        return []

    def ends(self, stage_id: int) -> list[int]:
        """Return when the successful tasks of a stage's last attempt ended, ms since 1970."""
        last = self._last_attempt(stage_id)
        attempts = [] if last is None else self._told(stage_id, last["attemptId"])
        return [
            task["launchTime"] + task["duration"]
            for task in attempts
            if task["status"] == "SUCCESS" and task.get("duration") is not None
        ]

    def outcome(self, stage_id: int, task_attempt_id: int) -> TaskOutcome:
        """Return the outcome of a task attempt."""
        last = self._last_attempt(stage_id)
        for attempt in range(0 if last is None else last["attemptId"] + 1):
            for task in self._tasks(stage_id, attempt):
                if task.task_attempt_id == task_attempt_id:
                    return task.outcome
        return TaskOutcome.UNKNOWN

    def _last_attempt(self, stage_id: int) -> dict[str, Any] | None:
        try:
            found = self._store.lastStageAttempt(stage_id)
        except Exception as error:
            if "NoSuchElementException" not in str(error):
                raise
            return None
        return dict(json.loads(self._json.writeValueAsString(found)))

    def _tasks(self, stage_id: int, attempt: int) -> list[TaskFacts]:
        return [_task(task) for task in self._told(stage_id, attempt)]

    def _told(self, stage_id: int, attempt: int) -> list[dict[str, Any]]:
        return list(json.loads(self._json.writeValueAsString(self._store.taskList(stage_id, attempt, _MAX_TASKS))))


_SCALA_MODULE = "com.fasterxml.jackson.module.scala.DefaultScalaModule$"


def _task(told: dict[str, Any]) -> TaskFacts:
    metrics = told.get("taskMetrics") or {}
    return TaskFacts(
        told["taskId"],
        told["partitionId"] if told.get("partitionId", -1) >= 0 else told["index"],
        _OUTCOMES.get(told["status"], TaskOutcome.FAILED),
        metrics.get("shuffleReadMetrics", {}).get("recordsRead", 0),
        metrics.get("shuffleWriteMetrics", {}).get("recordsWritten", 0),
    )
