"""A job's record in memory and on disk: what was decided holds at once, also where the disk is full."""

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
    """The record of one job. What can't be written at once is written as soon as it can be.

    Args:
        record: As it is on disk.
        directory: The job's files.
        leadership: Whether we may act for the job.
        steps: Writes it again and again.
    """

    def __init__(self, record: JobRecord, directory: JobDirectory, leadership: Leadership, steps: RetriedSteps) -> None:
        self._record = record
        self._directory = directory
        self._leadership = leadership
        self._steps = steps
        self._writing = threading.Lock()
        self._is_behind = False

    @property
    def current(self) -> JobRecord:
        """The record that counts here."""
        return self._record

    def change(self, **changes: Any) -> None:
        """Change it; on disk when this returns, unless the disk refuses it for a while.

        Raises:
            LeadershipLostError: It is for others to change it.
        """
        self._leadership.check()
        with self._writing:
            record = self._record.with_changes(**changes)
            failure = None
            if not self._is_behind:  # else who writes it takes the latest
                try:
                    record.write(self._directory, self._leadership.token)
                except OSError as error:
                    failure = error
                    self._is_behind = True
            self._record = record
        if failure is None:
            return
        logger.error("the record of job %s is written when it can be: %s", self._record.job_id, failure)
        what = f"writing the record of job {self._record.job_id}"
        self._steps.later(what, self._catch_up, f"record-{self._record.job_id}")

    def note(self, **changes: Any) -> None:
        """Change it in memory; the next change writes it, too."""
        with self._writing:
            self._record = self._record.with_changes(**changes)

    def _catch_up(self) -> None:
        self._leadership.check()
        with self._writing:
            self._record.write(self._directory, self._leadership.token)
            self._is_behind = False
