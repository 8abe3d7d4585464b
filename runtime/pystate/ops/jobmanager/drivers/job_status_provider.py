"""The status of a job, from its driver's file and the job manager's decisions."""

from __future__ import annotations

import logging
from dataclasses import replace

from pystate.common.errors import DriverLostError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.drivers.driver_heartbeat import Silence
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import JobVerdict, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile

logger = logging.getLogger(__name__)

_BEFORE_CANCELLING = (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)


class JobStatusProvider:
    """Provides the status from the driver's file, so that a hanging driver can't block it.

    Args:
        record: The decisions of the job manager.
        directory: The job's folder.

    Attributes:
        silence: The driver's silence, if it is to be reported; None if it answers.
    """

    def __init__(self, record: KeptRecord, directory: JobDirectory) -> None:
        self._record = record
        self._directory = directory
        self.silence: Silence | None = None

    def of_driver(self) -> JobStatusFile | None:
        """Return the last status of the last driver; None if there is none that can be read."""
        try:
            return JobStatusFile.read_from(self._directory.status)
        except DamagedFileError as error:
            logger.error("%s (%s)", error.message, error.where)
            return None

    def current(self) -> JobStatusFile:
        """Return the status of the job. The driver's final status takes precedence, then the job manager's verdict."""
        record = self._record.current
        status = self.of_driver() or JobStatusFile.begun(record.name, record.submitted_at)
        if status.state.is_terminal:
            return status
        verdict = record.verdict
        if verdict is None and record.phase is RecordPhase.ENDED:
            verdict = self._unknown_end()
        if verdict is not None:
            if verdict.failure is not None and not status.has_failed:
                status = status.with_failure(verdict.failure, verdict.end_time)
            return replace(status.moved_to(verdict.state, verdict.end_time), failure=verdict.failure)
        if record.cancel_requested and status.state in _BEFORE_CANCELLING:
            return replace(status, state=JobStatus.CANCELLING)
        return status

    def _unknown_end(self) -> JobVerdict:
        """Return what is said of an ended job whose last status is lost, where the record doesn't say how it ended."""
        message = "The job has ended, and the file that says how is missing or damaged."
        error = DriverLostError(message, where=str(self._directory.status), hint=f"see {self._directory.log}")
        return JobVerdict(JobStatus.FAILED, JobFailure.of(error, message), self._record.current.submitted_at)
