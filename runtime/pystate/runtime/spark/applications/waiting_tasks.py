"""Detects Spark tasks that wait for cores, by the state of Spark's scheduler: otherwise they look like a slow start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def lack_of_cores(context: SparkContext, wanted: int) -> str | None:
    """Return the sentence that tasks can't run concurrently for lack of cores; None if Spark has a core for each.

    Args:
        context: The Spark application.
        wanted: The number of tasks.
    """
    tracker = context.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    running = sum(stage.numActiveTasks for stage in stages)
    waiting = sum(stage.numTasks - stage.numActiveTasks - stage.numCompletedTasks for stage in stages)
    cores = context.defaultParallelism
    if not waiting or running < cores or running >= wanted:
        return None
    return f"Spark runs {running} tasks on its {cores} cores and {waiting} wait for one, of {wanted} that are to run at once"
