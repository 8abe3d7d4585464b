"""The checkpoint statistics of a job: from its driver, or from the driver's file after its end."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import CorruptSnapshotError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.files.job_files import JobFile
from pystate.common.time import current_time_ms
from pystate.core.metrics.sample import MetricSample
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway
from pystate.runtime.checkpoint.stats.file import read_statistics
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker

logger = logging.getLogger(__name__)

_KEPT_FILES = 16
"""The files that are kept taken apart: a thousand checkpoints of two hundred subtasks are some megabytes."""


_SILENT_SECONDS = 2.0
"""How long a driver that is known to be silent is waited for: what it has left behind is only slightly out of date."""


class CheckpointNotFoundError(PystateError):
    """There are no statistics of the requested checkpoint."""


class StatisticsFiles:
    """Reads the statistics that drivers have left in files, and keeps the last ones that were asked for. Thread-safe.

    Pages ask for the same statistics every second, and a large file takes long to take apart.

    Args:
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, clock: Callable[[], int] = current_time_ms) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: BoundedDict[str, tuple[_Version, CheckpointStatsTracker]] = BoundedDict(_KEPT_FILES)

    def nothing(self) -> CheckpointStatsTracker:
        """Return the statistics of no checkpoints."""
        return CheckpointStatsTracker(0, self._clock)

    def read(self, path: JobFile, *, driver_is_gone: bool) -> CheckpointStatsTracker:
        """Return the statistics in a file; nobody may change them.

        Args:
            path: The file.
            driver_is_gone: Whether its pending checkpoints have failed.

        Raises:
            CorruptSnapshotError: The file is damaged, or of another version.
        """
        version = _version(path, driver_is_gone)  # before it is read: one that is replaced in between is read again
        with self._lock:
            kept = self._kept.get(str(path), renew=True)
        if kept is not None:
            version_kept, statistics = kept
            if version_kept == version:
                return statistics
        found = read_statistics(path, sys.maxsize, self._clock, driver_is_gone=driver_is_gone)
        if found is None or version is None:
            return self.nothing()
        with self._lock:
            self._kept.put(str(path), (version, found))
        return found


_Version: TypeAlias = tuple[int, int, int, bool]


def _version(path: JobFile, driver_is_gone: bool) -> _Version | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, driver_is_gone


class JobCheckpoints:
    """The checkpoint statistics of one job, in the format of Flink's REST API.

    Args:
        job_id: The job.
        directory: Its folder.
        gateway: The gateway to its driver.
        files: Reads what drivers have left.
    """

    def __init__(self, job_id: str, directory: JobDirectory, gateway: DriverGateway, files: StatisticsFiles) -> None:
        self._job_id = job_id
        self._directory = directory
        self._gateway = gateway
        self._files = files
        self._reading = threading.Lock()

    def overview(self, limit: int | None = None, before: int | None = None) -> dict[str, Any]:
        """Return counts, summary and the latest checkpoints.

        Args:
            limit: How many checkpoints are listed, the newest first; None for all.
            before: Only those with a lower id are; None for all.
        """
        wanted = {name: value for name, value in (("limit", limit), ("before", before)) if value is not None}
        found = dict(self._ask("checkpoints", lambda tracker: tracker.to_rest(limit, before), **wanted))
        if wanted:  # a driver of an earlier version lists all of them
            found["history"] = [one for one in found["history"] if before is None or one["id"] < before][:limit]
        return found

    def samples(self) -> list[MetricSample]:
        """Return metrics from the job's file, without calling the driver."""
        return self._left_behind().samples()

    def details(self, checkpoint_id: int) -> dict[str, Any]:
        """Return one checkpoint with its operators.

        Raises:
            CheckpointNotFoundError: It is not listed.
        """
        found = self._ask("checkpoint_details", lambda tracker: tracker.details(checkpoint_id), checkpoint_id=checkpoint_id)
        if found is None:
            message = f"Could not find checkpointing statistics for checkpoint {checkpoint_id}."
            raise CheckpointNotFoundError(message, hint=f"pystate checkpoints {self._job_id} lists those that are known")
        return dict(found)

    def subtasks(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any]:
        """Return an operator's part of a checkpoint, by subtask.

        Raises:
            CheckpointNotFoundError: The checkpoint is not listed, or has no such operator.
        """
        found = self._ask(
            "checkpoint_subtasks",
            lambda tracker: tracker.subtask_details(checkpoint_id, vertex_id),
            checkpoint_id=checkpoint_id,
            vertex_id=vertex_id,
        )
        if found is None:
            self.details(checkpoint_id)
            message = f"There is no checkpoint statistics for task {vertex_id}."
            raise CheckpointNotFoundError(message, where=f"checkpoint {checkpoint_id} of job {self._job_id}")
        return dict(found)

    def _ask(self, op: str, read: Callable[[CheckpointStatsTracker], Any], **arguments: Any) -> Any:
        if not self._gateway.has_no_driver:
            try:
                waits = {} if self._gateway.silence is None else {"timeout": _SILENT_SECONDS}
                return self._gateway.call(op, **waits, **arguments)
            except PystateError as error:
                # the file is only slightly out of date
                logger.info("the checkpoints of job %s are read from its file: %s", self._job_id, error.message)
        return read(self._left_behind())

    def _left_behind(self) -> CheckpointStatsTracker:
        try:
            with self._reading:  # once for all who ask at this moment
                return self._files.read(self._directory.checkpoints, driver_is_gone=self._gateway.has_no_driver)
        except CorruptSnapshotError as error:
            logger.warning("%s (%s)", error.message, error.where)
            return self._files.nothing()
