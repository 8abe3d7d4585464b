"""Whether tasks of Spark's wait for cores, by what its scheduler says: nobody else can tell that from a slow start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def lack_of_cores(context: SparkContext, wanted: int) -> str | None:
    """Say that tasks which are to run at the same time can't, for lack of cores; None if Spark has a core for each.

    Args:
        context: The Spark application.
        wanted: How many are to.
    """
    tracker = context.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    running = sum(stage.numActiveTasks for stage in stages)
    waiting = sum(stage.numTasks - stage.numActiveTasks - stage.numCompletedTasks for stage in stages)
    cores = context.defaultParallelism
    if not waiting or running < cores or running >= wanted:
        return None
    return f"Spark runs {running} tasks on its {cores} cores and {waiting} wait for one, of {wanted} that are to run at once"
