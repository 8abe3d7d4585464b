"""The tasks of a job group, from Spark's status store, which works without the UI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def tasks_of_group(context: SparkContext, group: str, *, patience_ms: int, most: int) -> Iterator[Any]:
    """Yield what Spark knows about each task of the first attempts of a group's stages, as objects of the JVM.

    Args:
        context: The Spark application.
        group: The job group.
        patience_ms: How long Spark's listeners may take to process what has happened.
        most: No more tasks of a stage.
    """
    scala: Any = context._jsc.sc()  # noqa: SLF001 - pyspark has no public way to the status store
    scala.listenerBus().waitUntilEmpty(patience_ms)
    store, tracker = scala.statusStore(), context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            tasks = store.taskList(stage, 0, most)
            for index in range(tasks.length()):
                yield tasks.apply(index)
