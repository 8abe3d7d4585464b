"""The jobs of one home: taken in, started, watched, found again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping

from pystate.common.control import new_secret
from pystate.common.errors import JobNotFoundError, PystateError
from pystate.common.home import PystateHome, new_job_id, parse_job_id, read_json, write_file_atomically, write_json
from pystate.jobmanager.driver_process import DriverLauncher, DriverProcess
from pystate.jobmanager.job_record import JobRecord, RecordPhase, Submission
from pystate.jobmanager.supervised_job import SupervisedJob, job_name_of, now_ms

logger = logging.getLogger(__name__)


class Dispatcher:
    """All jobs of a home. Safe to use from many threads.

    Args:
        home: The folder of this installation.
        launcher: Starts drivers.
        clock: Milliseconds since 1970.
    """

    def __init__(self, home: PystateHome, launcher: DriverLauncher, clock: Callable[[], int] = now_ms) -> None:
        self._home = home
        self._launcher = launcher
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, SupervisedJob] = {}
        self._closed = False

    @property
    def home(self) -> PystateHome:
        """The folder of this installation."""
        return self._home

    def recover(self) -> None:
        """Read the records that earlier job managers left, watch the drivers that live, start again those that died."""
        self._home.jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
        running = self._launcher.find_running()
        for entry in sorted(os.listdir(self._home.jobs)):
            try:
                directory = self._home.job(entry)
                record = JobRecord.read(directory)
            except PystateError as error:
                logger.error("the job %s is left out: %s", entry, error)
                continue
            if record is None:  # we ended before the record was written; nothing was started
                continue
            job = SupervisedJob(record, directory, self._start_again, self._clock)
            self._jobs[record.job_id] = job
            if record.phase is RecordPhase.ENDED:
                directory.environment.unlink(missing_ok=True)  # we may have been killed in front of that
                continue
            process = running.get(record.job_id)
            if process is not None:
                logger.info("job %s goes on in process %d", record.job_id, process.pid)
                job.watch(process)
            elif record.phase is RecordPhase.SUBMITTED:
                job.give_up("The job manager ended before it had started the job's driver.")
            elif record.phase is RecordPhase.RESTARTING:
                job.restart()
            else:
                job.driver_died("The driver process ended while no job manager was running.")

    def submit(self, submission: Submission, environment: Mapping[str, str]) -> str:
        """Start a job and return its id.

        Args:
            submission: What to run.
            environment: The environment variables of the driver; ours where empty.

        Raises:
            PystateError: The driver can't be started.
        """
        job_id = new_job_id()
        directory = self._home.job(job_id)
        directory.path.mkdir(parents=True, mode=0o700)
        submitted_at = self._clock()
        write_file_atomically(directory.secret, new_secret(), mode=0o600)
        submission.write(directory, job_id, submitted_at)
        write_json(directory.environment, dict(environment), mode=0o600)
        record = JobRecord(job_id, job_name_of(submission.job_file), submitted_at)
        record.write(directory)
        job = SupervisedJob(record, directory, self._start_again, self._clock)
        try:
            process = self._launcher.start(job_id, submission, environment)
        except OSError as error:
            message = f"The job's driver can't be started: {error}."
            job.give_up(message)
            with self._lock:
                self._jobs[job_id] = job
            raise PystateError(message, where=submission.python) from error
        job.watch(process)
        with self._lock:
            self._jobs[job_id] = job
        logger.info("job %s (%s) starts in process %d", job_id, submission.job_file, process.pid)
        return job_id

    def close(self) -> None:
        """Start no more drivers; the next job manager goes on with what is due."""
        with self._lock:
            self._closed = True

    def _start_again(self, job: SupervisedJob) -> DriverProcess | None:
        """Start another driver for a job whose driver has died; None where that is the next job manager's to do.

        Raises:
            OSError: The process can't be started.
            PystateError: What it needs is gone.
        """
        submission = Submission.read(job.directory)
        environment = read_json(job.directory.environment)
        if environment is None:
            message = "The environment that the job's driver was started with is gone."
            raise PystateError(message, where=str(job.directory.environment))
        if job.record.pid is not None:
            self._launcher.end_orphans(job.job_id, job.record.pid)
        with self._lock:
            if self._closed:
                return None
            process = self._launcher.start(job.job_id, submission, environment)
        logger.info("job %s is started again in process %d", job.job_id, process.pid)
        return process

    def jobs(self) -> list[SupervisedJob]:
        """Return all jobs, the oldest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: (job.record.submitted_at, job.job_id))

    def job(self, job_id: str) -> SupervisedJob:
        """Return one job.

        Raises:
            UsageError: The id is malformed.
            JobNotFoundError: There is none of this id.
        """
        parsed = parse_job_id(job_id)
        with self._lock:
            found = self._jobs.get(parsed)
        if found is None:
            message = f"There is no job with id {parsed}."
            raise JobNotFoundError(message, hint="pystate list -a")
        return found
