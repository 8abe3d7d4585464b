"""Repairs Spark's local block manager where Spark doesn't.

A block manager that Spark considers lost is registered again. Spark considers an executor lost when its shuffle files can't
be read (`DAGScheduler`, `FetchFailed`), and removes its block manager. On a cluster it registers itself again. On a local
master it tries at each heartbeat but is never allowed to: the endpoint that decides whether the executor is alive doesn't
exist there (SPARK-41360). From then on, no task result above `spark.task.maxDirectResultSize` (1 MiB) arrives
(`TaskResultLost`), in any attempt, and files of finished shuffles aren't deleted.

Its folders are created again if they were deleted. Spark creates them once (`DiskBlockManager`), and without them not even a
broadcast succeeds: no slot could start in this JVM any more.
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
    """The block manager of a Spark application whose tasks all run on this machine.

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
        """Call `restore` unless it was called in the last seconds: shuffle files must not pile up."""
        if self._is_local and self._clock() >= self._looked + _PERIOD_S:
            self.restore()

    def restore(self) -> bool:
        """Register it with Spark again; return whether Spark had considered it lost."""
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
        """Create missing folders that Spark assumes to exist, and return them.

        Raises:
            JobExecutionError: One can't be created.
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
