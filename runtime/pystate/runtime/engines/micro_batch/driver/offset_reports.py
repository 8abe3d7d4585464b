"""Reports the offsets of completed checkpoints to sources, asynchronously to checkpoints."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import NO_OFFSET
from pystate.runtime.plan.job_plan import JobPlan

_CLOSE_S = 10.0


class OffsetReports:
    """The offset reports of one job. If a source is slow, only the newest offsets are reported next.

    Args:
        plan: The job's plan.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._listeners = {
            source.uid: source.step.completed_offsets for source in plan.sources if source.step.completed_offsets is not None
        }
        self._lock = threading.Lock()
        self._newest: dict[str, str] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="completed-offsets") if self._listeners else None
        self._told: Future[None] | None = None

    def completed(self, checkpoint: CompletedCheckpoint) -> None:
        """Record a completed checkpoint, without waiting."""
        position = checkpoint.metadata.source_position
        if self._thread is None or position is None:
            return
        with self._lock:
            for source in position.sources:
                if source["uid"] in self._listeners and source["offset"] != NO_OFFSET:
                    self._newest[source["uid"]] = source["offset"]
            if self._newest and (self._told is None or self._told.done()):
                self._told = self._thread.submit(self._tell)

    def close(self) -> None:
        """Wait up to a timeout until everything is reported."""
        if self._thread is None:
            return
        if self._told is not None:
            wait([self._told], _CLOSE_S)
        self._thread.shutdown(wait=False, cancel_futures=True)
        for listener in self._listeners.values():
            listener.close()

    def _tell(self) -> None:
        while True:
            with self._lock:
                newest, self._newest = self._newest, {}
                if not newest:
                    self._told = None
                    return
            for uid, offset in newest.items():
                self._listeners[uid].completed(offset)
