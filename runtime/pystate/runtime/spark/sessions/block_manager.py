"""Spark's block manager on this machine, made good again where Spark doesn't do it.

One that Spark has taken for lost is registered again. Spark takes an executor for lost when its shuffle files can't be read
(`DAGScheduler`, `FetchFailed`), and strikes its block manager off. One on a cluster registers itself again. A local master's
tries at each heartbeat and never may: who decides whether its executor is alive is an endpoint that a local master doesn't
have (SPARK-41360). From then on no result of a task above `spark.task.maxDirectResultSize` (1 MiB) arrives
(`TaskResultLost`), in no attempt, and nobody deletes the files of shuffles that are over.

Its folders are made again where somebody has deleted them. Spark makes them once (`DiskBlockManager`), and without them not
even a broadcast succeeds: no slot would ever start again in this JVM.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.execution_target import local_threads
from pystate.common.errors import JobExecutionError
from pystate.runtime.spark.java_fields import private_field, spark_environment

if TYPE_CHECKING:
    from pyspark import SparkContext

_PERIOD_S = 5.0
_SUBFOLDERS = "spark.diskStore.subDirectories"
_USUAL_SUBFOLDERS = "64"


class LocalBlockManager:
    """The block manager of a Spark application, which matters where all its tasks run on this machine.

    Args:
        context: The Spark application.
        clock: Monotonic seconds.
    """

    def __init__(self, context: SparkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._is_local = local_threads(str(context.master)) is not None
        self._looked = -_PERIOD_S

    def look(self) -> None:
        """Do as `restore` where nobody has for some seconds: files of shuffles must not pile up."""
        if self._is_local and self._clock() >= self._looked + _PERIOD_S:
            self.restore()

    def restore(self) -> bool:
        """Have Spark know it again; return whether Spark had taken it for lost."""
        if not self._is_local:
            return False
        self._looked = self._clock()
        scala: Any = self._context._jsc.sc()  # noqa: SLF001 - pyspark has no public way to it
        if not scala.getExecutorMemoryStatus().isEmpty():
            return False
        manager = self._manager()
        memory = self._field("storage.BlockManager", "memoryManager", manager)
        endpoint = self._field("storage.BlockManager", "storageEndpoint", manager)
        folders = manager.diskBlockManager().localDirsString()
        on_heap, off_heap = memory.maxOnHeapStorageMemory(), memory.maxOffHeapStorageMemory()
        manager.master().registerBlockManager(manager.blockManagerId(), folders, on_heap, off_heap, endpoint, False)
        return True

    def remake_folders(self) -> list[str]:
        """Make the folders again that Spark thinks are there, and return those that weren't.

        Raises:
            JobExecutionError: One can't be made.
        """
        if not self._is_local:
            return []
        from pyspark import SparkFiles  # late: the import of pyspark takes long

        count = int(self._context.getConf().get(_SUBFOLDERS, _USUAL_SUBFOLDERS))
        parts = [f"{number:02x}" for number in range(count)]
        blocks = [str(folder) for folder in self._manager().diskBlockManager().localDirsString()]
        folders = [str(self._context._temp_dir), SparkFiles.getRootDirectory(), *blocks]  # noqa: SLF001
        gone = [folder for folder in folders if not os.path.isdir(folder)]
        for folder in [*folders, *(os.path.join(folder, part) for folder in blocks for part in parts)]:
            try:
                os.makedirs(folder, 0o700, exist_ok=True)
            except OSError as error:
                message = f"Spark's folder for temporary files is gone, and can't be made again: {error.strerror}."
                raise JobExecutionError(message, where=folder, hint="let the job's user write there") from error
        return gone

    def _manager(self) -> Any:
        return self._field("SparkEnv", "blockManager", spark_environment(self._context))

    def _field(self, owner: str, name: str, of: Any) -> Any:
        return private_field(self._context, f"org.apache.spark.{owner}", name).get(of)
