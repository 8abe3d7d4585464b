"""Jobs that programs of other homes run and have registered here: shown and passed commands, but never started again.

The job's folder in this home holds what the program sends: status, statistics, results of operations. A program that dies
is noticed by its process, if it is of this machine, else by its silence: no signs of life, and no answer. How its job ended
is then asked of its own home, if that can be read from here.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pystate
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import DriverLostError, JobNotFoundError, JobTerminatedError, PystateError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.foreign_json import parse_json
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id, write_file_atomically
from pystate.common.files.job_files import read_job_file
from pystate.common.files.refused_files import refused
from pystate.common.job_status import JobStatus
from pystate.common.overrides import override
from pystate.common.processes.job_manager_proofs import REGISTRATION_PROTOCOL
from pystate.common.processes.machine_load import patient
from pystate.common.processes.processes import is_stopped
from pystate.common.text.plain_data import PlainDataError
from pystate.ops.jobmanager.drivers.driver_gateway import (
    DriverGateway,
    DriverProtocolError,
    DriverUnreachableError,
    call_driver,
)
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.ops.jobmanager.registration.observed_time import ObservedTime
from pystate.ops.jobmanager.supervision.embedded_jobs import EmbeddedJob
from pystate.ops.jobmanager.supervision.job_registry import JobRegistry
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.operation_file import OperationFile
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
_SIGNS_OF_LIFE = 3
"""How many of them must be missing, whatever the timeout: a program sends them as often as its own options say."""
_MOST_REPLACED = 16
_STATUS = "status.json"
_FILES = (_STATUS, "checkpoints.json", "metrics.json")
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
    def connect_seconds(self, timeout: float) -> float:
        return min(timeout, patient(_TRY_SECONDS))  # nobody waits longer for one that is stopped, or behind a firewall

    @override
    def call(self, op: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        self._refuse_if_stopped()
        host, _, home = self._registration.home.partition(":")
        try:
            return super().call(op, timeout=timeout, **arguments)
        except DriverProtocolError:
            raise
        except DriverUnreachableError as error:
            self._refuse_if_stopped()  # stopped while it was asked: a busy machine takes a while to stop a process, too
            message = f"The program that runs the job, on {host}, can't be reached from here. {error.message}"
            hint = (
                f"the same command on {host}, with PYSTATE_HOME={home}; or start the program with an address that this job "
                "manager reaches (spark.driver.host, pystate.slot.ports)"
            )
            raise DriverUnreachableError(message, where=error.where, hint=hint) from error

    def _refuse_if_stopped(self) -> None:
        if self._program.runs() and is_stopped(self._program.pid):
            where = f"process {self._program.pid} on {self._program.host}"
            message = f"The program that runs the job ({where}) was stopped (SIGSTOP, a debugger), so it can't answer."
            hint = f"kill -CONT {self._program.pid} lets it go on"
            raise DriverUnreachableError(message, where=f"job {self._record.current.job_id}", hint=hint)


class RegisteredJob(EmbeddedJob):
    """A job that a program of another home has registered.

    Args:
        registration: How.
        program: The program.
        status: The status of the job.
        home: The installation.
        directory: Its folder here.
        services: The shared services of all runners.
        observed: The time for which this job manager could hear of it.
    """

    def __init__(
        self,
        registration: RegistrationFile,
        program: EmbeddedProgramFile,
        status: JobStatusFile,
        home: PystateHome,
        directory: JobDirectory,
        services: JobManagerSharedServices,
        observed: ObservedTime,
    ) -> None:
        self.registration = registration
        self._of_program = program
        super().__init__(program, status, home, directory, services)
        self._clock = services.clock
        self._observed = observed.ms
        self._timeout_ms = max(services.heartbeat.timeout_ms, _SIGNS_OF_LIFE * (registration.interval_ms or 0))
        self._log = directory.log
        self._heard_at = self._observed()
        self._has_been_heard = False

    @override
    def _gateway_to(self, record: KeptRecord) -> DriverGateway:
        return RegisteredGateway(record, self.directory, self._of_program, self.registration)

    @override
    def was_started_again(self) -> bool:
        return False  # the other process registers the job

    def heard(self) -> None:
        """Note a sign of life."""
        self._heard_at = self._observed()
        self._has_been_heard = True

    @property
    def silent_ms(self) -> int:
        """For how long there was no sign of life, while this job manager could have heard it."""
        return self._observed() - self._heard_at

    def answers(self) -> bool:
        """Whether the program answers at its control endpoint."""
        try:
            call_driver(self.directory, "status", timeout=patient(_TRY_SECONDS))
        except DriverUnreachableError:
            return False
        except PystateError:
            return True
        return True

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
            if not self._take_end_from_its_home():
                self._write_lost(status, how)
        self._record.change(phase=RecordPhase.ENDED)
        self._gateway.close()

    def _lost(self) -> str | None:
        """Return how the program was lost; None if it wasn't."""
        where = f"process {self.program.pid} on {self.program.host}"
        runs = self.program.runs()
        if runs is False:
            return f"The program that ran the job ({where}) ended before the job."
        # one on this machine is known by its process: while it is stopped, nothing is heard of it
        silent = self.silent_ms
        if runs is not None or silent <= self._timeout_ms:
            return None
        if self.registration.reachable and self.answers():
            self.heard()
            return None
        if self._has_been_heard:
            return f"The program that runs the job ({where}) has given no sign of life for {silent / 1000:.0f} s."
        return (
            f"The program that ran the job ({where}) hasn't been heard of since this job manager began, "
            f"{silent / 1000:.0f} s ago. How the job ended, if it ended while no job manager ran, is said there: "
            f"{self.registration.home}."
        )

    def _take_end_from_its_home(self) -> bool:
        """Take the end of the job from its files in the home of the program, if it is there and can be read from here."""
        _, _, home = self.registration.home.partition(":")
        with contextlib.suppress(OSError, ValueError, PystateError):
            theirs = PystateHome(Path(home)).job(self.job_id)
            status = JobStatusFile.read_from(theirs.status)
            same = EmbeddedProgramFile.read_from(theirs.embedded) == self.program  # not one that happens to be called so
            if not same or status is None or not status.state.is_terminal or was_lost(status):
                return False
            logger.info("job %s has %s, as %s says", self.job_id, status.state.value, theirs.path)
            for name in _FILES:
                if name != _STATUS and (theirs.path / name).exists():
                    write_file_atomically(self.directory.path / name, read_job_file(theirs.path / name))
            status.write_to(self.directory.status, self.directory.status_reserve)
            return True
        return False

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
        closed: Set when this job manager stops acting.
    """

    def __init__(
        self, home: PystateHome, registry: JobRegistry, services: JobManagerSharedServices, closed: threading.Event
    ) -> None:
        self._home = home
        self._registry = registry
        self._services = services
        self._observed = ObservedTime(closed)
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
        if incarnation in (kept.incarnation, *kept.replaced):
            return  # `register` tells one that was replaced, with a proof
        job = self._job(job_id)
        if job is None:
            return
        job.look()
        status = JobStatusFile.read_from(directory.status)
        is_lost = status is not None and status.state.is_terminal
        if status is not None and not status.goes_on_in_next_start:
            message = f"The job {job_id} has {status.state.value}, so it isn't run again."
            raise JobTerminatedError(message, hint=f"give the next one another {PystateOptions.JOB_ID.key}")
        if _runs(job, is_lost=is_lost):
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
            FileRefusedError: It can't be written: the disk is full.
        """
        if said.protocol != REGISTRATION_PROTOCOL:
            message = (
                f"The program is of pystate {said.pystate_version}, which speaks protocol {said.protocol} with job "
                f"managers; this one, pystate {pystate.__version__}, speaks {REGISTRATION_PROTOCOL}."
            )
            raise RegistrationRefusedError(message, hint="take the same version for both")
        files = _files_of(said)
        try:
            return self._take(said, secret, files)
        except OSError as error:
            raise refused(error, "What the program tells of its job can't be written here") from error

    def _take(self, said: Registration, secret: bytes, files: Mapping[str, bytes]) -> RegistrationAnswer:
        with self._lock:
            directory = self._home.job(parse_job_id(said.job_id))
            kept = RegistrationFile.read_from(directory.registration)
            if kept is None and EmbeddedProgramFile.read_from(directory.embedded) == said.program:
                return RegistrationAnswer(said.nonce, same_home=True)
            self.check(said.job_id, said.incarnation)
            if kept is not None and said.incarnation in kept.replaced:
                return RegistrationAnswer(said.nonce, replaced=True)
            job = self._job(said.job_id)
            is_new = kept is None or kept.incarnation != said.incarnation or job is None or job.driver_is_gone
            if is_new and not said.whole:
                return RegistrationAnswer(said.nonce, wanted=True)
            if is_new or said.whole:
                registration = self._take_in(said, secret, files, directory)
                job = self._made(registration, said.program, directory)
                if job is not None:
                    self._registry.register(job)
            else:
                assert job is not None  # noqa: S101 - else it is new
                registration = job.registration
                _write_files(files, directory)
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
        self._observed.keep()
        return RegisteredJob(registration, program, status, self._home, directory, self._services, self._observed)

    def _job(self, job_id: str) -> RegisteredJob | None:
        try:
            job = self._registry.job(job_id)
        except JobNotFoundError:
            return None
        return job if isinstance(job, RegisteredJob) else None

    def _check_unknown(self, job_id: str, directory: JobDirectory) -> None:
        if EmbeddedProgramFile.read_from(directory.embedded) is not None:
            return  # of this home: maybe the same program, which its registration tells
        if not (directory.submission.exists() or directory.record.exists()):  # not here: maybe of another job manager
            try:
                self._registry.job(job_id)
            except JobNotFoundError:
                return
        message = f"The job {job_id} is one that this job manager has started."
        raise RegistrationRefusedError(message, hint="give the program an id of its own: 32 hex digits")

    def _take_in(
        self, said: Registration, secret: bytes, files: Mapping[str, bytes], directory: JobDirectory
    ) -> RegistrationFile:
        kept = RegistrationFile.read_from(directory.registration)
        if kept is None and directory.embedded.exists():
            message = f"The job {said.job_id} is one of this job manager's home, of another program."
            raise RegistrationRefusedError(message, hint="give the program an id of its own: 32 hex digits")
        try:
            return self._write_in(said, secret, files, directory, kept)
        except OSError:
            if kept is None:
                shutil.rmtree(directory.path, ignore_errors=True)  # nobody would look for what is left of it
            raise

    def _write_in(
        self,
        said: Registration,
        secret: bytes,
        files: Mapping[str, bytes],
        directory: JobDirectory,
        kept: RegistrationFile | None,
    ) -> RegistrationFile:
        make_private_folder(directory.path)
        directory.status_reserve.ensure()  # for the end of the job, when the disk is full
        write_file_atomically(directory.secret, secret, mode=0o600)
        said.driver.write_to(directory.driver)
        reason = "" if said.ended else _unreachable(directory)
        replaced = () if kept is None else kept.replaced
        if kept is not None and kept.incarnation != said.incarnation:
            replaced = (*replaced, kept.incarnation)[-_MOST_REPLACED:]
        registration = RegistrationFile(
            said.incarnation, said.home, said.log, not reason, reason, tuple(replaced), said.interval_ms
        )
        registration.write_to(directory.registration)
        write_file_atomically(directory.log, f"The log of this job is where its program runs: {said.log}\n".encode())
        _write_files(files, directory)
        said.program.write_to(directory.embedded)
        logger.info("job %s is registered by process %d on %s", said.job_id, said.program.pid, said.program.host)
        return registration


def _files_of(said: Registration) -> dict[str, bytes]:
    """Return the files that a program sends, by name, without those that only a later version knows.

    Raises:
        RegistrationRefusedError: One is damaged, or none of a job.
    """
    found = {}
    for name, text in said.files.items():
        is_operation = name.startswith(_OPERATION) and name.endswith(".json")
        if name not in _FILES and not is_operation:
            continue
        try:
            data = file_from_text(text)
            plain = parse_json(data)
            if is_operation:
                parse_job_id(_trigger_of(name))
                OperationFile.from_file(plain, name)
            elif name == _STATUS and not JobStatusFile.from_file(plain, name).timestamps:
                message = "it says of no state since when"
                raise PlainDataError(message)  # noqa: TRY301 - one more way to be damaged
        except (ValueError, RecursionError, PystateError) as error:
            message = f"The file {name!r} of the job can't be taken: {error}."
            raise RegistrationRefusedError(message) from error
        found[name] = data
    return found


def _write_files(files: Mapping[str, bytes], directory: JobDirectory) -> None:
    for name, data in files.items():
        if name.startswith(_OPERATION):
            make_private_folder(directory.operations)
            write_file_atomically(directory.operation(_trigger_of(name)), data)
        elif name == _STATUS:
            is_end = JobStatusFile.from_file(parse_json(data), name).state.is_terminal
            write_file_atomically(directory.status, data, reserve=directory.status_reserve if is_end else None)
        else:
            write_file_atomically(directory.path / name, data)


def _trigger_of(name: str) -> str:
    return name.removeprefix(_OPERATION).removesuffix(".json")


def _runs(job: RegisteredJob, *, is_lost: bool) -> bool:
    """Whether the program of a job runs, as far as can be told.

    Args:
        job: The job.
        is_lost: Whether it counts as lost, so that one that can't be asked is taken for gone.
    """
    runs = job.program.runs()
    if runs is not None and (runs or is_lost):
        return runs
    return job.answers() or not (job.registration.reachable or is_lost)


def _unreachable(directory: JobDirectory) -> str:
    """Return why the program's control endpoint can't be reached; empty if it can."""
    try:
        call_driver(directory, "status", timeout=_TRY_SECONDS)
    except DriverUnreachableError as error:
        return f"{error.message} {error.where or ''}".strip()
    except PystateError:
        return ""
    return ""


def was_lost(status: JobStatusFile) -> bool:
    """Whether a job counts as FAILED only since its program had ended without a word."""
    return status.failure is not None and status.failure.error_class == DriverLostError.__name__
