"""Embedded jobs, which programs such as scripts and notebooks run themselves: listed and queried, but never restarted."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id
from pystate.common.time import current_time_ms
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.ops.jobmanager.supervision.job_registry import JobRegistry
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.job_liveness import settled_status
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.logs.log_reader import read_log
from pystate.runtime.logs.pieces import is_written

logger = logging.getLogger(__name__)


class EmbeddedRecord(KeptRecord):
    """The record of an embedded job, in memory only: for a record on disk a job manager would start a driver."""

    def change(self, **changes: Any) -> None:
        """Change the record, in memory only."""
        self.note(**changes)


class EmbeddedJob(SupervisedJob):
    """An embedded job.

    Args:
        program: The program.
        status: The status of the job.
        home: The installation.
        directory: Its folder.
        services: The shared services of all runners.
    """

    def __init__(
        self,
        program: EmbeddedProgramFile,
        status: JobStatusFile,
        home: PystateHome,
        directory: JobDirectory,
        services: JobManagerSharedServices,
    ) -> None:
        began = status.start_time if status.start_time >= 0 else current_time_ms()
        record = JobRecord(
            directory.path.name, status.name, began, RecordPhase.STARTED, pid=program.pid, machine=program.machine
        )
        self._expires = services.leadership.token is None  # otherwise its folder isn't among those of other jobs
        super().__init__(record, directory, services)
        self.program: EmbeddedProgramFile = program
        self._log = home.job(program.log_job).log

    def _kept(self, record: JobRecord, services: JobManagerSharedServices) -> KeptRecord:
        return EmbeddedRecord(record, self.directory, services.leadership, services.steps)

    def look(self) -> None:
        """Check whether it has ended."""
        if self.driver_is_gone:
            return
        status = settled_status(self.directory, self.program)
        if status is not None and status.state.is_terminal:
            self._record.change(phase=RecordPhase.ENDED)
            self._gateway.close()

    def was_started_again(self) -> bool:
        """Return whether another process has the job now, which is another one to this job manager."""
        program = EmbeddedProgramFile.read_from(self.directory.embedded)
        if program is None or program == self.program:
            return False
        self._gateway.close()
        return True

    @property
    def end_time(self) -> int | None:
        """When the job ended; None while its program lives, whose session still logs to the job's folder."""
        return super().end_time if self._expires and self.program.runs() is False else None

    def read_output(self, name: str, offset: int, limit: int) -> tuple[bytes, bool]:
        """Return the next bytes of the session's log, and whether they are the last ones; its stdout isn't kept."""
        if name == "stdout":
            return super().read_output(name, offset, limit)
        return read_log(self._log, offset, limit, ended=self.driver_is_gone or not is_written(self._log))


class EmbeddedJobs:
    """Finds embedded jobs, and their ends.

    Args:
        home: The installation.
        registry: The registry to add jobs to.
        services: The shared services of runners.
        registered: Returns the job of a folder that a program of another home has filled, once it has a status.
    """

    def __init__(
        self,
        home: PystateHome,
        registry: JobRegistry,
        services: JobManagerSharedServices,
        registered: Callable[[JobDirectory, EmbeddedProgramFile], EmbeddedJob | None],
    ) -> None:
        self._home = home
        self._registry = registry
        self._services = services
        self._registered = registered

    def look(self) -> None:
        """Scan the home's folders for new jobs, those that go on in another process, and ended ones; skip damaged ones."""
        known = {job.job_id: job for job in self._registry.jobs()}
        for name in os.listdir(self._home.jobs) if self._home.jobs.is_dir() else ():
            try:
                job = known.get(name)
                if job is None or (isinstance(job, EmbeddedJob) and job.was_started_again()):
                    job = self._found(name)
                if isinstance(job, EmbeddedJob):
                    job.look()
            except (OSError, PystateError) as error:
                logger.info("the job in %s can't be looked at: %s", self._home.jobs / name, error)

    def _found(self, name: str) -> EmbeddedJob | None:
        try:
            directory = self._home.job(parse_job_id(name))
        except UsageError:
            return None
        program = EmbeddedProgramFile.read_from(directory.embedded)
        if program is None:
            return None
        job = self._registered(directory, program) if directory.registration.exists() else self._own(directory, program)
        if job is not None:
            self._registry.register(job)
        return job

    def _own(self, directory: JobDirectory, program: EmbeddedProgramFile) -> EmbeddedJob | None:
        status = settled_status(directory, program)
        return None if status is None else EmbeddedJob(program, status, self._home, directory, self._services)
