"""Jobs that programs of other homes run and have registered here: shown and passed commands, but never started again.

The job's folder in this home holds what the program sends: status, statistics, results of operations. A program that dies
is noticed by its process, if it is of this machine, else by its silence.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any

import pystate
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import DriverLostError, JobNotFoundError, JobTerminatedError, PystateError, UsageError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id, write_file_atomically
from pystate.common.job_status import JobStatus
from pystate.common.overrides import override
from pystate.common.processes.job_manager_proofs import REGISTRATION_PROTOCOL
from pystate.common.text.plain_data import PlainDataError
from pystate.ops.jobmanager.drivers.driver_gateway import (
    DriverGateway,
    DriverProtocolError,
    DriverUnreachableError,
    call_driver,
)
from pystate.ops.jobmanager.embedded_jobs import EmbeddedJob
from pystate.ops.jobmanager.job_registry import JobRegistry
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.ops.jobmanager.shared_services import JobManagerSharedServices
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.registration import (
    Registration,
    RegistrationAnswer,
    RegistrationFile,
    RegistrationRefusedError,
    file_from_text,
)
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile

logger = logging.getLogger(__name__)

_TRY_SECONDS = 5.0
_FILES = ("status.json", "checkpoints.json", "metrics.json")
_OPERATION = "operations/"


class RegisteredGateway(DriverGateway):
    """Calls the program of a registered job, and says of one that can't be reached where it is.

    Args:
        record: The job's record.
        directory: The job's folder.
        program: The program.
        registration: How it has registered.
    """

    def __init__(
        self, record: KeptRecord, directory: JobDirectory, program: EmbeddedProgramFile, registration: RegistrationFile
    ) -> None:
        super().__init__(record, directory)
        self._program = program
        self._registration = registration

    @override
    def check_protocol(self) -> None:
        super().check_protocol()
        try:
            self.call("status", timeout=_TRY_SECONDS)  # a cancel is told later, when nobody waits for an error any more
        except DriverUnreachableError:
            raise
        except PystateError as error:
            logger.debug("the program of job %s has answered: %s", self._record.current.job_id, error)

    @override
    def call(self, op: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        try:
            return super().call(op, timeout=timeout, **arguments)
        except DriverProtocolError:
            raise
        except DriverUnreachableError as error:
            host, _, home = self._registration.home.partition(":")
            message = f"The program that runs the job, on {host}, can't be reached from here. {error.message}"
            hint = (
                f"the same command on {host}, with PYSTATE_HOME={home}; or start the program with an address that this job "
                "manager reaches (spark.driver.host, pystate.slot.ports)"
            )
            raise DriverUnreachableError(message, where=error.where, hint=hint) from error


class RegisteredJob(EmbeddedJob):
    """A job that a program of another home has registered.

    Args:
        registration: How.
        program: The program.
        status: The status of the job.
        home: The installation.
        directory: Its folder here.
        services: The shared services of all runners.
    """

    def __init__(
        self,
        registration: RegistrationFile,
        program: EmbeddedProgramFile,
        status: JobStatusFile,
        home: PystateHome,
        directory: JobDirectory,
        services: JobManagerSharedServices,
    ) -> None:
        self.registration = registration
        self._of_program = program
        super().__init__(program, status, home, directory, services)
        self._clock = services.clock
        self._timeout_ms = services.heartbeat.timeout_ms
        self._log = directory.log
        self.heard()

    @override
    def _gateway_to(self, record: KeptRecord) -> DriverGateway:
        return RegisteredGateway(record, self.directory, self._of_program, self.registration)

    def heard(self) -> None:
        """Note a sign of life."""
        self._heard_at = self._clock()

    @property
    def silent_ms(self) -> int:
        """Since when there was no sign of life."""
        return self._clock() - self._heard_at

    @override
    def look(self) -> None:
        if self.driver_is_gone:
            return
        status = JobStatusFile.read_from(self.directory.status)
        if status is None:
            return
        if not status.state.is_terminal:
            how = self._lost()
            if how is None:
                return
            logger.warning("job %s: %s", self.job_id, how)
            self._write_lost(status, how)
        self._record.change(phase=RecordPhase.ENDED)
        self._gateway.close()

    def _lost(self) -> str | None:
        """Return how the program was lost; None if it wasn't."""
        where = f"process {self.program.pid} on {self.program.host}"
        runs = self.program.runs()
        if runs is False:
            return f"The program that ran the job ({where}) ended before the job."
        # one on this machine is known by its process: while either of the two is stopped, nothing is heard of it
        if runs is None and self.silent_ms > self._timeout_ms:
            return f"The program that runs the job ({where}) has given no sign of life for {self.silent_ms / 1000:.0f} s."
        return None

    def _write_lost(self, status: JobStatusFile, how: str) -> None:
        now = self._clock()
        again = f"start it again there, with {PystateOptions.JOB_ID.key} = {self.job_id}"
        message = f"{how} It was started elsewhere, and this job manager starts no other one: {again}."
        hint = "with that id it goes on from its latest checkpoint"
        failure = JobFailure.of(DriverLostError(message, where=self.program.program or None, hint=hint), "")
        lost = replace(status.with_failure(failure, now), failure=failure).moved_to(JobStatus.FAILED, now)
        lost.write_to(self.directory.status, self.directory.status_reserve)

    @override
    @property
    def end_time(self) -> int | None:
        if not self._expires or not self.driver_is_gone:
            return None
        status = JobStatusFile.read_from(self.directory.status)
        return status.end_time if status is not None and status.state.is_terminal else None


class RegisteredJobs:
    """Takes what programs of other homes tell.

    Args:
        home: The installation.
        registry: The registry of jobs.
        services: The shared services of runners.
    """

    def __init__(self, home: PystateHome, registry: JobRegistry, services: JobManagerSharedServices) -> None:
        self._home = home
        self._registry = registry
        self._services = services
        self._lock = threading.Lock()

    def check(self, job_id: str, incarnation: str) -> None:
        """Make sure that a program may register a job.

        Args:
            job_id: The job.
            incarnation: Random digits of its program's start.

        Raises:
            RegistrationRefusedError: Another program runs it, or this job manager has started it.
            JobTerminatedError: It has ended.
            LeadershipLostError: Another job manager leads.
        """
        self._services.leadership.check()
        directory = self._home.job(job_id)
        kept = RegistrationFile.read_from(directory.registration)
        if kept is None:
            self._check_unknown(job_id, directory)
            return
        if kept.incarnation == incarnation:
            return
        job = self._job(job_id)
        if job is None:
            return
        job.look()
        status = JobStatusFile.read_from(directory.status)
        if status is not None and status.state.is_terminal:
            if not _was_lost(status):
                message = f"The job {job_id} has {status.state.value}, so it isn't run again."
                raise JobTerminatedError(message, hint=f"give the next one another {PystateOptions.JOB_ID.key}")
            return
        if _answers(job):
            message = f"The job {job_id} runs already, in process {job.program.pid} on {job.program.host}."
            raise RegistrationRefusedError(message, hint="pystate list shows it; pystate stop or pystate cancel ends it")

    def register(self, said: Registration, secret: bytes) -> RegistrationAnswer:
        """Take what a program tells of its job.

        Args:
            said: What it tells.
            secret: The secret of its control endpoint.

        Raises:
            RegistrationRefusedError: Another program runs the job, or it can't be understood.
            JobTerminatedError: It has ended.
            LeadershipLostError: Another job manager leads.
        """
        if said.protocol != REGISTRATION_PROTOCOL:
            message = (
                f"The program is of pystate {said.pystate_version}, which speaks protocol {said.protocol} with job "
                f"managers; this one, pystate {pystate.__version__}, speaks {REGISTRATION_PROTOCOL}."
            )
            raise RegistrationRefusedError(message, hint="take the same version for both")
        with self._lock:
            directory = self._home.job(parse_job_id(said.job_id))
            kept = RegistrationFile.read_from(directory.registration)
            if kept is None and EmbeddedProgramFile.read_from(directory.embedded) == said.program:
                return RegistrationAnswer(said.nonce, same_home=True)
            self.check(said.job_id, said.incarnation)
            job = self._job(said.job_id)
            is_new = kept is None or kept.incarnation != said.incarnation or job is None or job.driver_is_gone
            if is_new and not said.whole:
                return RegistrationAnswer(said.nonce, wanted=True)
            if is_new or said.whole:
                registration = self._take_in(said, secret, directory)
                job = self._made(registration, said.program, directory)
                if job is not None:
                    self._registry.register(job)
            else:
                assert job is not None  # noqa: S101 - else it is new
                registration = job.registration
                _write_files(said, directory)
            if job is not None:
                job.heard()
                job.look()
            return RegistrationAnswer(said.nonce, reachable=registration.reachable, reason=registration.reason)

    def found(self, directory: JobDirectory, program: EmbeddedProgramFile) -> RegisteredJob | None:
        """Return the job of a folder that a registered program has filled; None while it has no status.

        Raises:
            PystateError: A file is damaged.
        """
        registration = RegistrationFile.read_from(directory.registration)
        return None if registration is None else self._made(registration, program, directory)

    def _made(
        self, registration: RegistrationFile, program: EmbeddedProgramFile, directory: JobDirectory
    ) -> RegisteredJob | None:
        status = JobStatusFile.read_from(directory.status)
        if status is None:
            return None
        return RegisteredJob(registration, program, status, self._home, directory, self._services)

    def _job(self, job_id: str) -> RegisteredJob | None:
        try:
            job = self._registry.job(job_id)
        except JobNotFoundError:
            return None
        return job if isinstance(job, RegisteredJob) else None

    def _check_unknown(self, job_id: str, directory: JobDirectory) -> None:
        known = directory.path.exists()
        if not known:
            try:
                self._registry.job(job_id)
            except JobNotFoundError:
                return
        if EmbeddedProgramFile.read_from(directory.embedded) is not None:
            return  # of this home: maybe the same program, which its registration tells
        message = f"The job {job_id} is one that this job manager has started."
        raise RegistrationRefusedError(message, hint="give the program an id of its own: 32 hex digits")

    def _take_in(self, said: Registration, secret: bytes, directory: JobDirectory) -> RegistrationFile:
        if directory.embedded.exists() and not directory.registration.exists():
            message = f"The job {said.job_id} is one of this job manager's home, of another program."
            raise RegistrationRefusedError(message, hint="give the program an id of its own: 32 hex digits")
        make_private_folder(directory.path)
        write_file_atomically(directory.secret, secret, mode=0o600)
        said.driver.write_to(directory.driver)
        reason = _unreachable(directory)
        registration = RegistrationFile(said.incarnation, said.home, said.log, not reason, reason)
        registration.write_to(directory.registration)
        write_file_atomically(directory.log, f"The log of this job is where its program runs: {said.log}\n".encode())
        _write_files(said, directory)
        said.program.write_to(directory.embedded)
        logger.info("job %s is registered by process %d on %s", said.job_id, said.program.pid, said.program.host)
        return registration


def _write_files(said: Registration, directory: JobDirectory) -> None:
    for name, text in said.files.items():
        is_operation = name.startswith(_OPERATION) and name.endswith(".json")
        try:
            if name not in _FILES and not is_operation:
                continue  # a later version may send more
            data = file_from_text(text)
            if is_operation:
                make_private_folder(directory.operations)
                file = directory.operation(name.removeprefix(_OPERATION).removesuffix(".json"))
            else:
                file = directory.path / name
        except (PlainDataError, UsageError) as error:
            message = f"The file {name!r} of the job can't be taken: {error}."
            raise RegistrationRefusedError(message) from error
        write_file_atomically(file, data)


def _answers(job: RegisteredJob) -> bool:
    if job.program.runs():
        return True
    try:
        call_driver(job.directory, "status", timeout=_TRY_SECONDS)
    except DriverUnreachableError:
        return not job.registration.reachable  # it can't be asked, and was heard of not long ago
    except PystateError:
        return True
    return True


def _unreachable(directory: JobDirectory) -> str:
    """Return why the program's control endpoint can't be reached; empty if it can."""
    try:
        call_driver(directory, "status", timeout=_TRY_SECONDS)
    except DriverUnreachableError as error:
        return f"{error.message} {error.where or ''}".strip()
    except PystateError:
        return ""
    return ""


def _was_lost(status: JobStatusFile) -> bool:
    return status.failure is not None and status.failure.error_class == DriverLostError.__name__
