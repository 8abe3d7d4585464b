"""Recovery of the jobs of earlier job managers: they continue, are restarted, or have ended."""

from __future__ import annotations

import logging
from functools import partial

from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.job_status import JobStatus
from pystate.common.processes.processes import this_machine
from pystate.ops.jobmanager.drivers.driver_process import AdoptedDriver, DriverLauncher
from pystate.ops.jobmanager.jobs.job_folders import JobFolders
from pystate.ops.jobmanager.supervision.job_registry import JobRegistry
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import JobRecord, JobVerdict, RecordPhase, record_token, remove_older_records
from pystate.runtime.job_folder.small_files import DriverTermFile
from pystate.runtime.job_folder.submission import SubmissionFile

logger = logging.getLogger(__name__)


class JobRecovery:
    """Takes over jobs when a job manager starts, or becomes leader.

    Args:
        home: The folder of this installation.
        folders: The folders of the jobs.
        launcher: Finds living drivers.
        registry: The registry to add jobs to.
        services: The shared services of runners.
    """

    def __init__(
        self,
        home: PystateHome,
        folders: JobFolders,
        launcher: DriverLauncher,
        registry: JobRegistry,
        services: JobManagerSharedServices,
    ) -> None:
        self._home = home
        self._folders = folders
        self._launcher = launcher
        self._registry = registry
        self._services = services
        self._leadership = services.leadership

    def recover(self, complete_term: int | None = None) -> None:
        """Read the records of earlier job managers, watch living drivers, restart dead ones.

        Args:
            complete_term: The latest term whose job manager took over all jobs. A job with a record of an earlier term was
                written by a job manager that had been replaced, and its submitter got no answer.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        steps = self._services.steps
        steps.do("making sure that this job manager leads", self._leadership.check)
        steps.do("preparing the folders of the jobs", self._folders.prepare)
        steps.run_or_retry("deleting old secrets", self._home.remove_old_secrets, "old-secrets")
        job_ids = steps.do("listing the jobs", self._folders.job_ids)
        # job managers with shared jobs share drivers on one machine; without, other homes are ignored
        running = self._launcher.find_running(() if self._leadership.token is None else job_ids)
        for job_id in job_ids:
            what = f"taking over job {job_id}"
            take_over = partial(self._recover, job_id, running.get(job_id), complete_term)
            if self._leadership.token is None:
                steps.run_or_retry(what, take_over, f"recover-{job_id}")
            else:  # once all jobs count as taken over, a job with an older record is one whose submitter got no answer
                steps.do(what, take_over)

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
        self._go_on(record, directory, process)

    def _not_replaced(self, job_id: str, process: AdoptedDriver | None) -> AdoptedDriver | None:
        """Return a living driver unless the job was given to another one, possibly on another machine."""
        if process is None or process.leader is None:
            return process
        term = DriverTermFile.read_from(self._folders.job(job_id).term)
        if term is None or (term.leader or 0) <= process.leader:
            return process
        self._launcher.end_replaced(job_id, process)
        return None

    def _replace_damaged(
        self, job_id: str, directory: JobDirectory, process: AdoptedDriver | None, error: PystateError
    ) -> JobRecord:
        """Put a damaged record aside; the job continues if its driver lives, else it has failed with this error."""
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
            failure = JobFailure.of(shown, error.message)
            verdict = JobVerdict(JobStatus.FAILED, failure, self._services.clock())
            record = record.with_changes(phase=RecordPhase.ENDED, verdict=verdict)
        record.write(directory, self._leadership.token)
        return record

    def _go_on(self, record: JobRecord, directory: JobDirectory, process: AdoptedDriver | None) -> None:
        """Resume serving a job, from the state of its record and its driver."""
        if self._leadership.token is not None:
            # from now on no older job manager can change the job
            record.write(directory, self._leadership.token)
            remove_older_records(directory, self._leadership.token)
        job = SupervisedJob(record, directory, self._services)
        self._registry.register(job)
        runner = job.runner
        elsewhere = record.machine is not None and record.machine != this_machine()
        if record.phase is RecordPhase.ENDED:
            # this may have been killed before that
            runner.run_step("deleting the secrets", runner.delete_secrets)
        elif process is not None:
            logger.info("job %s goes on in process %d", record.job_id, process.pid)
            runner.watch(process)
            self._services.drivers.found(directory)
        elif elsewhere and self._leadership.token is not None:
            message = "The job manager on the machine of the job's driver is gone."
            claim = partial(self._folders.claim, record.job_id)
            runner.run_step("the takeover", lambda: runner.take_over(message, claim))
        elif record.phase is RecordPhase.SUBMITTED:
            message = "The job manager ended before it had started the job's driver."
            runner.run_step("the end", lambda: runner.give_up(message))
        elif record.phase is RecordPhase.RESTARTING:
            runner.restart()
        else:
            message = "The driver process has ended, and no job manager saw how."
            runner.run_step("the restart", lambda: runner.driver_died(message, seen=False))
        self._registry.recovered(job)
