"""A job's record in memory and on disk: decisions take effect at once, even if the disk is full."""

from __future__ import annotations

import logging
import threading
from typing import Any

from pystate.common.files.home import JobDirectory
from pystate.ops.jobmanager.leadership import Leadership
from pystate.ops.jobmanager.retried_steps import RetriedSteps
from pystate.runtime.job_folder.job_record import JobRecord

logger = logging.getLogger(__name__)


class KeptRecord:
    """The record of one job. Changes that can't be written at once are written as soon as possible.

    Args:
        record: The record on disk.
        directory: The job's folder.
        leadership: Whether this job manager may act for the job.
        steps: Retries the writes.
    """

    def __init__(self, record: JobRecord, directory: JobDirectory, leadership: Leadership, steps: RetriedSteps) -> None:
        self._record = record
        self._directory = directory
        self._leadership = leadership
        self._steps = steps
        self._writing = threading.Lock()
        self._write_is_pending = False

    @property
    def current(self) -> JobRecord:
        """The current record."""
        return self._record

    def change(self, **changes: Any) -> None:
        """Change the record; it is on disk when this returns, unless writes fail for a while.

        Raises:
            LeadershipLostError: Another job manager may change it.
        """
        self._leadership.check()
        with self._writing:
            record = self._record.with_changes(**changes)
            failure = None
            if not self._write_is_pending:  # otherwise the pending write takes the latest
                try:
                    record.write(self._directory, self._leadership.token)
                except OSError as error:
                    failure = error
                    self._write_is_pending = True
            self._record = record
        if failure is None:
            return
        logger.error("the record of job %s is written when it can be: %s", self._record.job_id, failure)
        what = f"writing the record of job {self._record.job_id}"
        self._steps.later(what, self._catch_up, f"record-{self._record.job_id}")

    def note(self, **changes: Any) -> None:
        """Change the record in memory; the next `change` writes it."""
        with self._writing:
            self._record = self._record.with_changes(**changes)

    def _catch_up(self) -> None:
        self._leadership.check()
        with self._writing:
            self._record.write(self._directory, self._leadership.token)
            self._write_is_pending = False
