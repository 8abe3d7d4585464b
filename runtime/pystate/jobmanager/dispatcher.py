"""The jobs of one home: taken in, started, watched, found again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from pystate.common.control import new_secret
from pystate.common.errors import JobNotFoundError, PystateError, UsageError
from pystate.common.home import (
    JobDirectory,
    PystateHome,
    new_job_id,
    parse_job_id,
    write_file_atomically,
)
from pystate.common.job_files import check_room
from pystate.common.job_status import JobStatus
from pystate.common.processes import this_machine
from pystate.common.refused_files import refused
from pystate.common.time import current_time_ms, steady_ms
from pystate.job_folder.content import DamagedFileError
from pystate.job_folder.failure_history import JobFailure
from pystate.job_folder.job_record import (
    JobRecord,
    JobVerdict,
    RecordPhase,
    record_token,
    remove_older_records,
)
from pystate.job_folder.small_files import DriverTermFile, EnvironmentFile
from pystate.job_folder.submission import Submission, SubmissionFile
from pystate.jobmanager.driver_process import AdoptedDriver, DriverLauncher, DriverProcess, DriverRefusedError
from pystate.jobmanager.job_folders import JobFolders, LocalJobFolders
from pystate.jobmanager.job_leftovers import remove_job_copies
from pystate.jobmanager.job_store import EndedJob, JobStoreTerms
from pystate.jobmanager.leadership import (
    Leadership,
    LeadershipInDoubtError,
    LeadershipLostError,
    OnlyJobManager,
)
from pystate.jobmanager.retried_steps import RetriedSteps
from pystate.jobmanager.supervised_job import SupervisedJob

T = TypeVar("T")

logger = logging.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 10.0


class Dispatcher:
    """All jobs of a home. Safe to use from many threads.

    Args:
        home: The folder of this installation.
        launcher: Starts drivers.
        clock: Milliseconds since 1970.
        folders: Where the jobs' folders are; default: in the home.
        leadership: Whether we may act.
        store: How long jobs that have ended stay.
        steady: Milliseconds on a clock that nobody sets.
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
    ) -> None:
        self._home = home
        self._launcher = launcher
        self._clock = clock
        self._folders = folders or LocalJobFolders(home)
        self._leadership: Leadership = leadership or OnlyJobManager()
        self._store = store or JobStoreTerms()
        self._lock = threading.Lock()
        self._jobs: dict[str, SupervisedJob] = {}
        self._closed = threading.Event()
        self.steps = RetriedSteps(self._closed)
        self._steady = steady
        self._seen_ended: dict[str, int] = {}
        self._refused: set[str] = set()

    @property
    def home(self) -> PystateHome:
        """The folder of this installation."""
        return self._home

    # -- jobs of earlier job managers

    def recover(self, complete_term: int | None = None) -> None:
        """Read the records that earlier job managers left, watch the drivers that live, start again those that died.

        Args:
            complete_term: The latest term whose job manager took all jobs over. A job whose record is of an earlier one was
                written by a job manager that had been replaced, and nobody was told of it.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self.steps.do("making sure that this job manager leads", self._leadership.check)
        self.steps.do("preparing the folders of the jobs", self._folders.prepare)
        self.steps.do_now_or_later("deleting old secrets", self._home.remove_old_secrets, "old-secrets")
        job_ids = self.steps.do("listing the jobs", self._folders.job_ids)
        # those who share their jobs share drivers on one machine; alone, no other home is any of our business
        running = self._launcher.find_running(() if self._leadership.token is None else job_ids)
        for job_id in job_ids:
            what = f"taking over job {job_id}"
            take_over = partial(self._recover, job_id, running.get(job_id), complete_term)
            if self._leadership.token is None:
                self.steps.do_now_or_later(what, take_over, f"recover-{job_id}")
            else:  # once all are said to be taken over, a job with an older record counts as one that nobody was told of
                self.steps.do(what, take_over)

    def _recover(self, job_id: str, found: AdoptedDriver | None, complete_term: int | None) -> None:
        process = self._not_replaced(job_id, found)
        directory = self._folders.bring(job_id, None if process is None else process.home)
        try:
            record = JobRecord.read(directory)
        except DamagedFileError as error:
            record = self._replace_damaged(job_id, directory, process, error)
        except PystateError as error:
            logger.error("the job %s is left out: %s", job_id, error)
            return
        if record is None:  # a plain `python job.py`
            return
        if complete_term is not None and (record_token(directory) or 0) < complete_term:
            logger.warning("job %s was submitted to a job manager that did not lead any more; it is removed", job_id)
            self._folders.remove(job_id)
            return
        self._recover_job(record, directory, process)

    def _not_replaced(self, job_id: str, process: AdoptedDriver | None) -> AdoptedDriver | None:
        """Return a living driver unless the job has been given to another one, which may be on another machine."""
        if process is None or process.leader is None:
            return process
        term = DriverTermFile.read_from(self._folders.job(job_id).term)
        if term is None or (term.leader or 0) <= process.leader:
            return process
        self._launcher.end_replaced(job_id, process)
        return None

    def _recover_job(self, record: JobRecord, directory: JobDirectory, process: AdoptedDriver | None) -> None:
        if self._leadership.token is not None:
            # from now on no older job manager can change what counts
            record.write(directory, self._leadership.token)
            remove_older_records(directory, self._leadership.token)
        job = self._supervised(record, directory)
        with self._lock:
            self._jobs[record.job_id] = job
        elsewhere = record.machine is not None and record.machine != this_machine()
        if record.phase is RecordPhase.ENDED:
            # we may have been killed in front of that
            job.see_to("deleting the secrets", SupervisedJob.delete_secrets)
        elif process is not None:
            logger.info("job %s goes on in process %d", record.job_id, process.pid)
            job.watch(process)
        elif elsewhere and self._leadership.token is not None:
            message = "The job manager on the machine of the job's driver is gone."
            job.see_to("the takeover", lambda job: job.take_over(message, lambda: self._folders.claim(job.job_id)))
        elif record.phase is RecordPhase.SUBMITTED:
            message = "The job manager ended before it had started the job's driver."
            job.see_to("the end", lambda job: job.give_up(message))
        elif record.phase is RecordPhase.RESTARTING:
            job.restart()
        else:
            message = "The driver process has ended, and no job manager saw how."
            job.see_to("the restart", lambda job: job.driver_died(message))

    def _replace_damaged(
        self, job_id: str, directory: JobDirectory, process: AdoptedDriver | None, error: PystateError
    ) -> JobRecord:
        """Put a damaged record aside; the job goes on where its driver lives, and has failed with this error where not."""
        logger.error("%s (%s)", error.message, error.where)
        aside = JobRecord.set_aside(directory)
        modified = int(aside.stat().st_mtime * 1000)
        try:
            submission = SubmissionFile.read(directory)
            name, submitted_at = submission.initial_name, submission.submitted_at
        except PystateError:
            name, submitted_at = "(damaged)", modified
        record = JobRecord(job_id, name, submitted_at, RecordPhase.STARTED)
        if process is None:
            shown = PystateError(error.message, where=str(aside), hint="see the job's log; its checkpoints are untouched")
            verdict = JobVerdict(JobStatus.FAILED, JobFailure.of(shown, error.message), self._clock())
            record = record.with_changes(phase=RecordPhase.ENDED, verdict=verdict)
        record.write(directory, self._leadership.token)
        return record

    def _supervised(self, record: JobRecord, directory: JobDirectory) -> SupervisedJob:
        return SupervisedJob(
            record, directory, self._start_again, self._clock, self._leadership, remove_job_copies, self.steps
        )

    # -- new jobs

    def submit(self, submission: Submission, environment: Mapping[str, str]) -> str:
        """Start a job and return its id.

        Args:
            submission: What to run.
            environment: The environment variables of the driver; ours where empty.

        Raises:
            UsageError: Its arguments and its environment are longer than the operating system takes.
            PystateError: The driver can't be started.
        """
        self._leadership.check()
        job_id = new_job_id()
        submitted_at = self._clock()
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
        job = self._supervised(record, directory)
        # whoever leads by now looks for jobs after this moment, and finds it
        self._leadership.check()
        with self._lock:
            self._jobs[job_id] = job
        try:
            process = self._launcher.start(job_id, submission, environment, self._leadership.token)
        except OSError as error:
            told = refused(error, "The job's driver can't be started")
            job.see_to("the end", lambda job: job.give_up(told.message))
            raise told from error
        except DriverRefusedError as error:
            message = f"The job's driver can't be started: {error.message}."
            job.see_to("the end", lambda job: job.give_up(message))
            if error.is_too_long:
                raise UsageError(message, hint="give the job a file in place of long arguments") from error
            raise PystateError(message, where=submission.python) from error
        job.watch(process)
        logger.info("job %s (%s) starts in process %d", job_id, submission.job_file, process.pid)
        return job_id

    def close(self) -> None:
        """Start no more drivers; the next job manager goes on with what is due."""
        with self._lock:
            self._closed.set()

    def _start_again(self, job: SupervisedJob) -> DriverProcess | None:
        """Start another driver for a job whose driver has died; None where that is the next job manager's to do.

        Raises:
            OSError: The process can't be started at the moment, or would have no room for its files.
            PystateError: What it needs is gone.
        """
        check_room(job.directory.path)
        submission = SubmissionFile.read(job.directory)
        submission.check_paths()
        environment = EnvironmentFile.read_from(job.directory.environment)
        if environment is None:
            message = "The environment that the job's driver was started with is gone."
            raise PystateError(message, where=str(job.directory.environment))
        if job.record.pid is not None:
            self._launcher.end_orphans(job.job_id, job.record.pid)
        with self._lock:
            if self._closed.is_set():
                return None
            self._leadership.check()
            process = self._launcher.start(job.job_id, submission, environment.variables, self._leadership.token)
        logger.info("job %s is started again in process %d", job.job_id, process.pid)
        return process

    # -- jobs that have ended

    def keep_house(self) -> None:
        """Forget expired jobs, from time to time, on a thread of its own until `close`."""

        def keep() -> None:
            while not self._closed.wait(_HOUSEKEEPING_SECONDS):
                try:
                    self.tidy_up()
                except LeadershipInDoubtError:
                    continue
                except LeadershipLostError:
                    return
                except Exception:
                    logger.exception("housekeeping failed; it is tried again")

        threading.Thread(target=keep, name="housekeeping", daemon=True).start()

    def tidy_up(self) -> None:
        """Delete the folders of expired jobs, never their checkpoints and savepoints.

        What the operating system refuses is done the next time, and keeps nothing else from being done.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._leadership.check()
        now, jobs = self._steady(), self.jobs()
        ended = []
        for job in jobs:
            end_time = self._try(f"looking at the end of job {job.job_id}", partial(getattr, job, "end_time"))
            if end_time is not None:
                seen_for = now - self._seen_ended.setdefault(job.job_id, now)
                ended.append(EndedJob(job.job_id, end_time, seen_for))
        for job_id in self._store.expired(ended):
            self._try(f"deleting the folder of job {job_id}", partial(self._forget, job_id))

    def _forget(self, job_id: str) -> None:
        with self._lock:
            job = self._jobs.pop(job_id)
        try:
            self._folders.remove(job_id)
        except OSError:
            with self._lock:
                self._jobs[job_id] = job
            raise
        del self._seen_ended[job_id]
        logger.info("job %s is not listed any longer", job_id)

    def _try(self, what: str, act: Callable[[], T]) -> T | None:
        """Do a step of housekeeping; one that is refused is told once, until it was done again."""
        try:
            result = act()
        except OSError as error:
            if what not in self._refused:
                logger.error("%s is tried until it can be done: %s", what, error)
            self._refused.add(what)
            return None
        if what in self._refused:
            self._refused.discard(what)
            logger.info("%s is done", what)
        return result

    # -- asking

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
