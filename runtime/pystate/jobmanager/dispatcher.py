"""The jobs of one home: taken in, started, watched, found again."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Mapping

from pystate.common.control import new_secret
from pystate.common.errors import JobNotFoundError, PystateError, UsageError
from pystate.common.home import (
    JobDirectory,
    PystateHome,
    new_job_id,
    parse_job_id,
    read_json,
    write_file_atomically,
    write_json,
)
from pystate.common.job_manager_options import JobManagerOptions
from pystate.jobmanager.driver_process import AdoptedDriver, DriverLauncher, DriverProcess
from pystate.jobmanager.job_folders import JobFolders, LocalJobFolders
from pystate.jobmanager.job_leftovers import remove_job_copies
from pystate.jobmanager.job_record import (
    DamagedRecordError,
    JobRecord,
    RecordPhase,
    Submission,
    record_token,
    remove_older_records,
)
from pystate.jobmanager.job_store import JobStoreTerms
from pystate.jobmanager.leadership import Leadership, LeadershipLostError, OnlyJobManager, this_machine
from pystate.jobmanager.log_rotation import rotate
from pystate.jobmanager.supervised_job import SupervisedJob, job_name_of, now_ms

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
        old_logs: How many old pieces are kept of a log.
    """

    def __init__(
        self,
        home: PystateHome,
        launcher: DriverLauncher,
        clock: Callable[[], int] = now_ms,
        *,
        folders: JobFolders | None = None,
        leadership: Leadership | None = None,
        store: JobStoreTerms | None = None,
        old_logs: int = JobManagerOptions.FLINK_LOG_MAX.default,
    ) -> None:
        self._home = home
        self._launcher = launcher
        self._clock = clock
        self._folders = folders or LocalJobFolders(home)
        self._leadership: Leadership = leadership or OnlyJobManager()
        self._store = store or JobStoreTerms()
        self._old_logs = old_logs
        self._lock = threading.Lock()
        self._jobs: dict[str, SupervisedJob] = {}
        self._closed = threading.Event()

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
        self._leadership.check()
        self._folders.prepare()
        self._home.remove_old_secrets()
        running = self._launcher.find_running()
        for job_id in self._folders.job_ids():
            process = self._not_replaced(job_id, running.get(job_id))
            directory = self._folders.bring(job_id, None if process is None else process.home)
            try:
                record = JobRecord.read(directory)
            except DamagedRecordError as error:
                record = self._replace_damaged(job_id, directory, process, error)
            except PystateError as error:
                logger.error("the job %s is left out: %s", job_id, error)
                continue
            if record is None:  # a plain `python job.py`
                continue
            if complete_term is not None and (record_token(directory) or 0) < complete_term:
                logger.warning("job %s was submitted to a job manager that did not lead any more; it is removed", job_id)
                self._folders.remove(job_id)
                continue
            self._recover_job(record, directory, process)

    def _not_replaced(self, job_id: str, process: AdoptedDriver | None) -> AdoptedDriver | None:
        """Return a living driver unless the job has been given to another one, which may be on another machine."""
        if process is None or process.leader is None:
            return process
        term = read_json(self._folders.job(job_id).term)
        if term is None or (term.get("leader") or 0) <= process.leader:
            return process
        self._launcher.end_replaced(job_id, process)
        return None

    def _recover_job(self, record: JobRecord, directory: JobDirectory, process: AdoptedDriver | None) -> None:
        job = self._supervised(record, directory)
        self._jobs[record.job_id] = job
        if self._leadership.token is not None:
            # from now on no older job manager can change what counts
            record.write(directory, self._leadership.token)
            remove_older_records(directory, self._leadership.token)
        elsewhere = record.machine is not None and record.machine != this_machine()
        if record.phase is RecordPhase.ENDED:
            directory.environment.unlink(missing_ok=True)  # we may have been killed in front of that
            directory.spark_secrets.unlink(missing_ok=True)
        elif process is not None:
            logger.info("job %s goes on in process %d", record.job_id, process.pid)
            job.watch(process)
        elif elsewhere and self._leadership.token is not None:
            message = "The job manager on the machine of the job's driver is gone."
            job.take_over(message, lambda: self._folders.claim(job.job_id))
        elif record.phase is RecordPhase.SUBMITTED:
            job.give_up("The job manager ended before it had started the job's driver.")
        elif record.phase is RecordPhase.RESTARTING:
            job.restart()
        else:
            job.driver_died("The driver process ended while no job manager was running.")

    def _replace_damaged(
        self, job_id: str, directory: JobDirectory, process: AdoptedDriver | None, error: PystateError
    ) -> JobRecord:
        """Put a damaged record aside; the job goes on where its driver lives, and has failed with this error where not."""
        logger.error("%s (%s)", error.message, error.where)
        aside = JobRecord.set_aside(directory)
        modified = int(aside.stat().st_mtime * 1000)
        try:
            submission = read_json(directory.submission)
            name = submission.get("job_name") or job_name_of(submission["job_file"])
            submitted_at = int(submission["submitted_at"])
        except (ValueError, TypeError, KeyError):
            name, submitted_at = "(damaged)", modified
        record = JobRecord(job_id, name, submitted_at, RecordPhase.STARTED)
        if process is None:
            shown = PystateError(error.message, where=str(aside), hint="see the job's log; its checkpoints are untouched")
            failure = {**shown.to_dict(), "stack_trace": error.message}
            verdict = {"state": "FAILED", "failure": failure, "end_time": self._clock()}
            record = record.with_changes(phase=RecordPhase.ENDED, verdict=verdict)
        record.write(directory, self._leadership.token)
        return record

    def _supervised(self, record: JobRecord, directory: JobDirectory) -> SupervisedJob:
        return SupervisedJob(record, directory, self._start_again, self._clock, self._leadership, remove_job_copies)

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
        record = JobRecord(
            job_id, submission.job_name or job_name_of(submission.job_file), submitted_at, machine=this_machine()
        )

        def fill(directory: JobDirectory) -> None:
            write_file_atomically(directory.secret, new_secret(), mode=0o600)
            submission.write(directory, job_id, submitted_at)
            write_json(directory.environment, dict(environment), mode=0o600)
            record.write(directory, self._leadership.token)

        directory = self._folders.publish(job_id, fill)
        job = self._supervised(record, directory)
        # whoever leads by now looks for jobs after this moment, and finds it
        self._leadership.check()
        try:
            process = self._launcher.start(job_id, submission, environment, self._leadership.token)
        except OSError as error:
            message = f"The job's driver can't be started: {error}."
            job.give_up(message)
            with self._lock:
                self._jobs[job_id] = job
            if error.errno == errno.E2BIG:
                raise UsageError(message, hint="give the job a file in place of long arguments") from error
            raise PystateError(message, where=submission.python) from error
        job.watch(process)
        with self._lock:
            self._jobs[job_id] = job
        logger.info("job %s (%s) starts in process %d", job_id, submission.job_file, process.pid)
        return job_id

    def close(self) -> None:
        """Start no more drivers; the next job manager goes on with what is due."""
        with self._lock:
            self._closed.set()

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
            if self._closed.is_set():
                return None
            self._leadership.check()
            process = self._launcher.start(job.job_id, submission, environment, self._leadership.token)
        logger.info("job %s is started again in process %d", job.job_id, process.pid)
        return process

    # -- jobs that have ended

    def keep_house(self) -> None:
        """Forget expired jobs and bound the size of logs, from time to time, on a thread of its own until `close`."""

        def keep() -> None:
            while not self._closed.wait(_HOUSEKEEPING_SECONDS):
                try:
                    self.tidy_up()
                except LeadershipLostError:
                    return
                except Exception:
                    logger.exception("housekeeping failed; it is tried again")

        threading.Thread(target=keep, name="housekeeping", daemon=True).start()

    def tidy_up(self) -> None:
        """Delete the folders of expired jobs, never their checkpoints and savepoints; put large logs aside.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._leadership.check()
        rotate(self._home.jobmanager_log, self._old_logs)
        ended = []
        for job in self.jobs():
            rotate(job.directory.log, self._old_logs)
            if job.driver_is_gone:
                ended.append((job.job_id, int(job.status()["end_time"])))
        for job_id in self._store.expired(ended, self._clock()):
            with self._lock:
                del self._jobs[job_id]
            self._folders.remove(job_id)
            logger.info("job %s is not listed any longer", job_id)

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
