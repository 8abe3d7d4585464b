"""The checkpoint statistics of a job: from its driver, or from the driver's file after its end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from pystate.common.errors import CorruptSnapshotError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.core.metrics.sample import MetricSample
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway
from pystate.runtime.checkpoint.stats.file import read_statistics
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker

logger = logging.getLogger(__name__)


class CheckpointNotFoundError(PystateError):
    """There are no statistics of the requested checkpoint."""


class JobCheckpoints:
    """The checkpoint statistics of one job, in the format of Flink's REST API.

    Args:
        job_id: The job.
        directory: Its folder.
        gateway: The gateway to its driver.
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, job_id: str, directory: JobDirectory, gateway: DriverGateway, clock: Callable[[], int]) -> None:
        self._job_id = job_id
        self._directory = directory
        self._gateway = gateway
        self._clock = clock

    def overview(self) -> dict[str, Any]:
        """Return counts, summary and the latest checkpoints."""
        return dict(self._ask("checkpoints", CheckpointStatsTracker.to_rest))

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
                return self._gateway.call(op, **arguments)
            except PystateError as error:
                # the file is only slightly out of date
                logger.info("the checkpoints of job %s are read from its file: %s", self._job_id, error.message)
        return read(self._left_behind())

    def _left_behind(self) -> CheckpointStatsTracker:
        try:
            gone = self._gateway.has_no_driver
            found = read_statistics(self._directory.checkpoints, sys.maxsize, self._clock, driver_is_gone=gone)
        except CorruptSnapshotError as error:
            logger.warning("%s (%s)", error.message, error.where)
            found = None
        return CheckpointStatsTracker(0, self._clock) if found is None else found
