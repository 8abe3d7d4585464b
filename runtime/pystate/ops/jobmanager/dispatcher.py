"""The jobs of one home: accepts them, and delegates to those that start, watch, recover and expire them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pystate.common.errors import JobNotFoundError, PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id, write_file_atomically
from pystate.common.files.job_files import check_room
from pystate.common.files.refused_files import refused
from pystate.common.processes.control import new_secret
from pystate.common.processes.processes import this_machine
from pystate.common.time import current_time_ms, steady_ms
from pystate.ops.jobmanager.driver_starts import DriverStarts
from pystate.ops.jobmanager.drivers.class_data_trainer import ClassDataTrainer
from pystate.ops.jobmanager.drivers.driver_heartbeat import HeartbeatTerms
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher, DriverRefusedError
from pystate.ops.jobmanager.job_recovery import JobRecovery
from pystate.ops.jobmanager.job_store import JobStore, JobStoreTerms
from pystate.ops.jobmanager.jobs.job_folders import JobFolders, LocalJobFolders
from pystate.ops.jobmanager.leadership import Leadership, OnlyJobManager
from pystate.ops.jobmanager.registration.registered_jobs import RegisteredJobs
from pystate.ops.jobmanager.retried_steps import JobManagerEndsError, RetriedSteps
from pystate.ops.jobmanager.spare_drivers.spare_drivers import SpareDrivers
from pystate.ops.jobmanager.supervision.embedded_jobs import EmbeddedJobs
from pystate.ops.jobmanager.supervision.job_checkpoints import StatisticsFiles
from pystate.ops.jobmanager.supervision.job_registry import JobRegistry
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.job_record import JobRecord
from pystate.runtime.job_folder.small_files import EnvironmentFile
from pystate.runtime.job_folder.submission import Submission, SubmissionFile


class Dispatcher:
    """All jobs of a home. Thread-safe.

    Args:
        home: The folder of this installation.
        launcher: Starts drivers.
        clock: Returns milliseconds since 1970.
        folders: The folders of the jobs; in the home by default.
        leadership: Whether this job manager may act.
        store: How long ended jobs are kept.
        steady: Returns milliseconds of a monotonic clock.
        trainer: Makes later drivers start faster; None for none.
        spares: The spare drivers; None for none.
        heartbeat: Interval and timeout of heartbeats to drivers; None for Flink's defaults.

    Attributes:
        home: The folder of this installation.
        spares: The spare drivers; None for none.
        steps: Retries steps that fail for a while.
        registered: Takes what programs of other homes tell of their jobs.
    """

    def __init__(
        self,
        home: PystateHome,
        launcher: DriverLauncher,
        clock: Callable[[], int] = current_time_ms,
        *,
        folders: JobFolders | None = None,
        leadership: Leadership | None = None,
        store: JobStoreTerms | None = None,
        steady: Callable[[], int] = steady_ms,
        trainer: ClassDataTrainer | None = None,
        spares: SpareDrivers | None = None,
        heartbeat: HeartbeatTerms | None = None,
    ) -> None:
        self.home = home
        self.spares = spares
        self._folders = folders or LocalJobFolders(home)
        self._leadership: Leadership = leadership or OnlyJobManager()
        self._closed = threading.Event()
        self.steps = RetriedSteps(self._closed)
        self._drivers = DriverStarts(launcher, self._leadership, self._closed, trainer, spares)
        self._services = JobManagerSharedServices(
            self._drivers, self._leadership, self.steps, clock, heartbeat or HeartbeatTerms(), StatisticsFiles(clock)
        )
        self._registry = JobRegistry()
        self._recovery = JobRecovery(home, self._folders, launcher, self._registry, self._services)
        self.registered = RegisteredJobs(home, self._registry, self._services, self._closed)
        self._embedded = EmbeddedJobs(home, self._registry, self._services, self.registered.found)
        self._store = JobStore(store or JobStoreTerms(), self._registry, self._folders, self._leadership, steady)

    def recover(self, complete_term: int | None = None) -> None:
        """Recover the jobs of earlier job managers.

        Args:
            complete_term: The latest term whose job manager took over all jobs.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._recovery.recover(complete_term)

    def each_recovered(self, act: Callable[[SupervisedJob], None]) -> None:
        """Let somebody act on each job of earlier job managers, now or when it is recovered.

        Args:
            act: Called once for each, on the thread that recovers it; it must not wait.
        """
        self._registry.each_recovered(act)

    def check_acts(self) -> None:
        """Check that this job manager may act for its jobs, for which it waits while that is in doubt.

        Raises:
            LeadershipLostError: Another job manager leads, or this one ends.
        """
        self.steps.do("making sure that this job manager leads", self._leadership.check)
        if self._closed.is_set():
            message = "This job manager ends; the next one goes on."
            raise JobManagerEndsError(message)

    def submit(self, submission: Submission, environment: Mapping[str, str], job_id: str | None = None) -> str:
        """Start a job and return its id.

        Args:
            submission: The submission.
            environment: The environment variables of the driver; if empty, those of this process.
            job_id: The id, which no job may have; None for one that is chosen here.

        Raises:
            LeadershipLostError: Another job manager leads.
            NoSpaceError: The disk is full.
            UsageError: Its arguments and environment are too long for the operating system.
            PystateError: The job's files can't be written, or its driver can't be started.
        """
        self._leadership.check()
        job = self._take_in(job_id or new_job_id(), submission, environment)
        # a new leader looks for jobs after this moment, and finds it
        self._leadership.check()
        self._registry.register(job)
        try:
            process = self._drivers.start(job.directory, submission, environment)
        except OSError as error:
            told = refused(error, "The job's driver can't be started")
            self._end_unstarted(job, told.message)
            raise told from error
        except DriverRefusedError as error:
            message = f"The job's driver can't be started: {error.message}."
            self._end_unstarted(job, message)
            if error.is_too_long:
                raise UsageError(message, hint="give the job a file in place of long arguments") from error
            raise PystateError(message, where=submission.python) from error
        job.runner.watch(process)
        return job.job_id

    def _take_in(self, job_id: str, submission: Submission, environment: Mapping[str, str]) -> SupervisedJob:
        """Create a job's folder, with all files that its driver needs."""
        submitted_at = self._services.clock()
        record = JobRecord(job_id, submission.initial_name, submitted_at, machine=this_machine())

        def fill(directory: JobDirectory) -> None:
            write_file_atomically(directory.secret, new_secret(), mode=0o600)
            SubmissionFile.of(submission, job_id, submitted_at).write_to(directory.submission)
            EnvironmentFile(dict(environment)).write_to(directory.environment)
            for reserve in (directory.record_reserve, directory.status_reserve):
                reserve.ensure()
            check_room(directory.path)
            record.write(directory, self._leadership.token)

        try:
            directory = self._folders.publish(job_id, fill)
        except OSError as error:
            raise refused(error, "The job's files can't be written") from error
        return SupervisedJob(record, directory, self._services)

    def _end_unstarted(self, job: SupervisedJob, message: str) -> None:
        job.runner.run_step("the end", lambda: job.runner.give_up(message))

    def expire_periodically(self) -> None:
        """Forget expired jobs periodically, on a thread of its own, until `close`."""
        self._store.expire_periodically(self._closed)

    def expire_jobs(self) -> None:
        """Forget expired jobs now.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._store.expire_jobs()

    def jobs(self) -> list[SupervisedJob]:
        """Return all jobs, oldest first."""
        self._embedded.look()
        return self._registry.jobs()

    def job(self, job_id: str) -> SupervisedJob:
        """Return one job.

        Raises:
            UsageError: The id is malformed.
            JobNotFoundError: There is no job with this id.
        """
        self._embedded.look()
        return self._registry.job(job_id)

    def knows(self, job_id: str) -> bool:
        """Return whether there is a job with this id."""
        try:
            self.job(job_id)
        except JobNotFoundError:
            return False
        return True

    def close(self) -> None:
        """Start no more drivers; the next job manager continues pending work."""
        self._drivers.close()
