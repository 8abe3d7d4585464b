"""When the partitions in front of an exchange had delivered their last row, from Spark's status store.

The store works without the UI. It is filled by a listener, so it may lag behind the job by a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_LISTENERS_TIMEOUT_MS = 1000
_MAX_TASKS = 100_000


def alignment_ms(context: SparkContext, job_group: str, exchange_stage: int, triggered: int) -> int | None:
    """Return the time from the first to the last end of a task of the stage that feeds an exchange.

    A task that ended before the checkpoint was triggered waits for the others only since then.

    Args:
        context: The Spark application.
        job_group: The group of the epoch's jobs: the query's run id.
        exchange_stage: The stage of the exchange's tasks.
        triggered: When the checkpoint was triggered, ms since 1970.

    Returns:
        Milliseconds; None where the store doesn't know (yet).
    """
    feeding = _stage_before(context, job_group, exchange_stage)
    if feeding is None:
        return None
    scala: Any = context._jsc.sc()  # noqa: SLF001 - pyspark has no public way to the status store
    try:
        scala.listenerBus().waitUntilEmpty(_LISTENERS_TIMEOUT_MS)
        store = scala.statusStore()
        stage = store.lastStageAttempt(feeding)
        tasks = store.taskList(feeding, stage.attemptId(), _MAX_TASKS)
        ends = []
        for index in range(tasks.length()):
            task = tasks.apply(index)
            if str(task.status()) == "SUCCESS" and task.duration().isDefined():
                ends.append(task.launchTime().getTime() + task.duration().get())
    except Exception:  # a figure must never fail an epoch: py4j raises whatever the JVM did
        return None
    return max(0, max(ends) - max(min(ends), triggered)) if ends else None


def _stage_before(context: SparkContext, job_group: str, stage: int) -> int | None:
    """Return the stage whose output `stage` reads: tasks in a row make stages in a row."""
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(job_group):
        info = tracker.getJobInfo(job)
        if info is not None and stage in info.stageIds:
            before = [other for other in info.stageIds if other < stage]
            return max(before) if before else None
    return None
