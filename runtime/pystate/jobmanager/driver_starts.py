"""Starting the drivers of jobs, for as long as this job manager acts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from pystate.common.errors import PystateError
from pystate.common.home import JobDirectory
from pystate.common.job_files import check_room
from pystate.job_folder.job_record import JobRecord
from pystate.job_folder.small_files import EnvironmentFile
from pystate.job_folder.submission import Submission, SubmissionFile
from pystate.jobmanager.class_data_trainer import ClassDataTrainer
from pystate.jobmanager.driver_process import DriverLauncher, DriverProcess
from pystate.jobmanager.leadership import Leadership

logger = logging.getLogger(__name__)


class DriverStarts:
    """Starts a job's first driver, and those that follow it.

    Args:
        launcher: Starts processes.
        leadership: Whether this job manager may act.
        closed: Set when it acts no more.
        trainer: Told of each start; None for nobody.
    """

    def __init__(
        self,
        launcher: DriverLauncher,
        leadership: Leadership,
        closed: threading.Event,
        trainer: ClassDataTrainer | None = None,
    ) -> None:
        self._launcher = launcher
        self._leadership = leadership
        self._closed = closed
        self._trainer = trainer
        self._lock = threading.Lock()

    def start(self, job_id: str, submission: Submission, environment: Mapping[str, str]) -> DriverProcess:
        """Start the first driver of a job.

        Args:
            job_id: The job.
            submission: What it is to run.
            environment: Its environment variables; ours where empty.

        Raises:
            DriverRefusedError: The process can't be started, and never will be.
            OSError: It can't be started at the moment.
        """
        process = self._launcher.start(job_id, submission, environment, self._leadership.token)
        logger.info("job %s (%s) starts in process %d", job_id, submission.job_file, process.pid)
        self._tell_trainer(submission, environment)
        return process

    def start_again(self, directory: JobDirectory, record: JobRecord) -> DriverProcess | None:
        """Start another driver for a job whose driver has died; None where that is the next job manager's to do.

        Raises:
            OSError: The process can't be started at the moment, or would have no room for its files.
            LeadershipLostError: Another job manager leads.
            DriverRefusedError: The operating system refuses it for good.
            PystateError: What it needs is gone.
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
            process = self._launcher.start(record.job_id, submission, environment.variables, self._leadership.token)
        logger.info("job %s is started again in process %d", record.job_id, process.pid)
        self._tell_trainer(submission, environment.variables)
        return process

    def _tell_trainer(self, submission: Submission, environment: Mapping[str, str]) -> None:
        if self._trainer is not None:
            self._trainer.driver_started(submission, environment)

    def close(self) -> None:
        """Start no more drivers in the place of others; behind this call none is under way."""
        with self._lock:
            self._closed.set()
        if self._trainer is not None:
            self._trainer.close()
