"""Starts the drivers of jobs, for as long as this job manager may act."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping

from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.files.job_files import check_room
from pystate.ops.jobmanager.drivers.class_data_trainer import ClassDataTrainer
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher, DriverProcess
from pystate.ops.jobmanager.leadership import Leadership
from pystate.ops.jobmanager.spare_drivers.spare_drivers import SpareDrivers
from pystate.runtime.job_folder.job_record import JobRecord
from pystate.runtime.job_folder.small_files import EnvironmentFile
from pystate.runtime.job_folder.submission import Submission, SubmissionFile

logger = logging.getLogger(__name__)


class DriverStarts:
    """Starts the first driver of a job, and its replacements.

    Args:
        launcher: Starts processes.
        leadership: Whether this job manager may act.
        closed: Set when this job manager stops acting.
        trainer: Notified of each start; None for none.
        spares: The spare drivers; None for none.
    """

    def __init__(
        self,
        launcher: DriverLauncher,
        leadership: Leadership,
        closed: threading.Event,
        trainer: ClassDataTrainer | None = None,
        spares: SpareDrivers | None = None,
    ) -> None:
        self._launcher = launcher
        self._leadership = leadership
        self._closed = closed
        self._trainer = trainer
        self._spares = spares
        self._lock = threading.Lock()

    def start(self, directory: JobDirectory, submission: Submission, environment: Mapping[str, str]) -> DriverProcess:
        """Start the first driver of a job.

        Args:
            directory: The job's folder.
            submission: The submission.
            environment: Its environment variables; if empty, those of this process.

        Raises:
            DriverRefusedError: The process can't be started, and never will be.
            OSError: It can't be started at the moment.
        """
        job_id = directory.path.name
        process = self._driver(job_id, submission, environment)
        logger.info("job %s (%s) starts in process %d", job_id, submission.job_file, process.pid)
        self._has_driver(directory, submission, environment)
        return process

    def start_again(self, directory: JobDirectory, record: JobRecord) -> DriverProcess | None:
        """Start another driver for a job whose driver died; None if that is left to the next job manager.

        Raises:
            OSError: The process can't be started at the moment, or there is no space for its files.
            LeadershipLostError: Another job manager leads.
            DriverRefusedError: The operating system rejects it permanently.
            PystateError: A file it needs is gone.
        """
        check_room(directory.path)
        submission = SubmissionFile.read(directory)
        submission.check_paths()
        environment = EnvironmentFile.read_from(directory.environment)
        if environment is None:
            message = "The environment that the job's driver was started with is gone."
            raise PystateError(message, where=str(directory.environment))
        if record.pid is not None:
            self._launcher.end_orphans(record.job_id, record.pid)
        with self._lock:
            if self._closed.is_set():
                return None
            self._leadership.check()
            process = self._driver(record.job_id, submission, environment.variables)
        logger.info("job %s is started again in process %d", record.job_id, process.pid)
        self._has_driver(directory, submission, environment.variables)
        return process

    def found(self, directory: JobDirectory) -> None:
        """Record that a job has a driver that an earlier job manager started."""
        if self._spares is None or not self._spares.size:
            return
        with contextlib.suppress(OSError, PystateError):  # its next driver is started normally
            environment = EnvironmentFile.read_from(directory.environment)
            if environment is not None:
                self._spares.used(directory, SubmissionFile.read(directory), environment.variables)

    def _has_driver(self, directory: JobDirectory, submission: Submission, environment: Mapping[str, str]) -> None:
        """Notify trainer and spares that a job has a driver."""
        if self._trainer is not None:
            self._trainer.driver_started(submission, environment)
        if self._spares is not None:
            self._spares.used(directory, submission, environment)

    def _driver(self, job_id: str, submission: Submission, environment: Mapping[str, str]) -> DriverProcess:
        """Return a driver for the job: a spare one, or a new one."""
        spare = None if self._spares is None else self._spares.take(job_id, submission, environment)
        return spare or self._launcher.start(job_id, submission, environment, self._leadership.token)

    def close(self) -> None:
        """Start no more replacement drivers; after this call no start is in progress."""
        with self._lock:
            self._closed.set()
        if self._trainer is not None:
            self._trainer.close()
        if self._spares is not None:
            self._spares.close()
