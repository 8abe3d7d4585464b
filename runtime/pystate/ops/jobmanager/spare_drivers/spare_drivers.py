"""Manages spare drivers, and gives them jobs."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.processes.free_memory import available_bytes
from pystate.common.time import steady_ms
from pystate.ops.jobmanager.drivers.driver_process import JOB_ID_VARIABLE, ChildDriver, driver_variables
from pystate.ops.jobmanager.spare_drivers.spare_kind import SpareKind, spare_kind, submitted_options
from pystate.ops.jobmanager.spare_drivers.spare_pool import Spare, SparePool
from pystate.ops.jobmanager.spare_drivers.spare_process import SPARE_COMMAND, SpareProcess
from pystate.runtime.job_folder.small_files import DriverProcessFile, SessionFile
from pystate.runtime.job_folder.spare_messages import TakenJob, WarmUp
from pystate.runtime.job_folder.submission import Submission

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0
"""How often is looked whether there is memory."""
_RESERVED_MS = 600_000
"""How long a spare waits for the job that it is reserved for."""


@dataclass(frozen=True)
class _Example:
    """The last job of a kind, or the one before a job of that kind.

    Attributes:
        changed: The options in which its session differs from that in the folder.
    """

    submission: Submission
    environment: Mapping[str, str]
    directory: JobDirectory
    changed: tuple[str, ...] = ()

    def configuration(self) -> dict[str, str]:
        """Return the configuration for a spare's session: that of the job, with its program's settings."""
        submitted = submitted_options(self.submission).to_dict()
        with contextlib.suppress(OSError, PystateError):
            session = SessionFile.read_from(self.directory.session)
            if session is not None:
                changes = {key: submitted[key] for key in self.changed if key in submitted}
                return {**session.configuration, **changes}
        return submitted


@dataclass(frozen=True)
class SpareFacts:
    """A spare driver, for display.

    Attributes:
        spare: The spare in the pool.
        pid: Its process id.
        memory: The memory of it and its child processes in bytes.
        age: The milliseconds in its current state.
    """

    spare: Spare
    pid: int
    memory: int
    age: int


class SpareDrivers:
    """The spare drivers of a job manager. Thread-safe.

    Args:
        home: The installation.
        size: The wanted number of spares.
        min_free: The available memory in bytes that starting one requires.
        leader: This job manager's fencing token; None without high availability.
        command: The interpreter's arguments that start one; tests replace it.
        free: Returns the available memory in bytes; None if unknown.
        steady: Returns milliseconds of a monotonic clock.
    """

    def __init__(
        self,
        home: PystateHome,
        size: int,
        min_free: int = 0,
        leader: int | None = None,
        command: tuple[str, ...] = SPARE_COMMAND,
        free: Callable[[], int | None] = available_bytes,
        steady: Callable[[], int] = steady_ms,
    ) -> None:
        self._home = home
        self._min_free = min_free
        self._leader = leader
        self._command = command
        self._free = free
        self._now = steady
        self._pool = SparePool(size)
        self._processes: dict[str, SpareProcess] = {}
        self._examples: dict[SpareKind, _Example] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._without_memory = False
        self._thread: threading.Thread | None = None

    @property
    def size(self) -> int:
        """The wanted number of spares."""
        return self._pool.size

    def facts(self) -> list[SpareFacts]:
        """Return the facts of each spare."""
        with self._changed:
            found = [(spare, self._processes[spare.spare_id]) for spare in self._pool.spares]
        now = self._now()
        return [SpareFacts(spare, one.pid, one.resident_bytes(), now - spare.since) for spare, one in found]

    def take(self, job_id: str, submission: Submission, environment: Mapping[str, str]) -> ChildDriver | None:
        """Give a job to a matching spare driver; None if there is none.

        Args:
            job_id: The job.
            submission: The submission.
            environment: Its environment variables; if empty, those of this process.
        """
        kind = spare_kind(submission, environment) if self.size or self._pool.reserved else None
        if kind is None:
            return None
        with self._changed:
            spare = self._pool.take(kind)
            process = None if spare is None else self._processes.pop(spare.spare_id)
            others = self._pool.spares
            self._changed.notify_all()
        if process is None:
            logger.info("job %s gets no spare driver: %s", job_id, _why_none(others, kind))
            return None
        unfit = process.unfit
        if unfit is not None:
            logger.info("job %s gets no spare driver: %s", job_id, unfit)
            process.dismiss()
            threading.Thread(target=process.end, name="spare-driver-end", daemon=True).start()
            return None
        directory = self._home.job(job_id)
        variables = {**driver_variables(self._home, environment, self._leader), JOB_ID_VARIABLE: job_id}
        try:
            directory.driver.unlink(missing_ok=True)  # the address of an earlier driver
            # before it can begin: another job manager must be able to find the job's driver
            DriverProcessFile(process.pid, process.started, process.spare_id).write_to(directory.process)
            process.give(TakenJob(job_id, submission.job_file, submission.arguments, variables))
        except OSError as error:
            logger.warning("the spare driver %d can't be given job %s: %s", process.pid, job_id, error)
            process.dismiss()
            process.end()
            return None
        return ChildDriver(process.process)

    def used(self, directory: JobDirectory, submission: Submission, environment: Mapping[str, str]) -> None:
        """Record that a job has a driver, started now or by an earlier job manager, so that spares of its kind are wanted.

        Args:
            directory: The job's folder.
            submission: Its submission.
            environment: Its environment variables; if empty, those of this process.
        """
        kind = None if not self.size else spare_kind(submission, environment)
        if kind is None:
            return
        with self._changed:
            if self._closed:
                return
            self._examples[kind] = _Example(submission, environment, directory)
            self._pool.used(kind, self._now())
            self._look()

    def reserve(
        self,
        directory: JobDirectory,
        submission: Submission,
        environment: Mapping[str, str],
        *,
        practises: bool = False,
    ) -> None:
        """Have a spare get warm for a job that follows another one, whatever the number of spares that are kept.

        The next job of its kind gets it, warm or not. It ends with `release`, or if there is none for some minutes.

        Args:
            directory: The folder of the job before.
            submission: The submission of the job that follows.
            environment: Its environment variables; if empty, those of this process.
            practises: Whether that job comes later: what the spare practises would take the time that it is to save.
        """
        kind = spare_kind(submission, environment)
        if kind is None:
            return
        with self._changed:
            if self._closed:
                return
            self._examples[kind] = _Example(submission, environment, directory, (CoreOptions.DEFAULT_PARALLELISM.key,))
            self._pool.reserve(directory.path.name, kind, self._now() + _RESERVED_MS, practises=practises)
            self._look()

    def release(self, directory: JobDirectory) -> None:
        """End the spare that was reserved for a job after this one, if no job has got it."""
        with self._changed:
            self._pool.release(directory.path.name)
            self._changed.notify_all()

    def _look(self) -> None:
        """Have the thread start what is missing."""
        if self._thread is None:
            shutil.rmtree(self._home.spare_drivers, ignore_errors=True)  # of job managers that were killed
            self._thread = threading.Thread(target=self._keep, name="spare-drivers", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def close(self) -> None:
        """End all spares without a job, and start no more."""
        with self._changed:
            self._closed = True
            processes = list(self._processes.values())
            for process in processes:
                self._pool.drop(process.spare_id)
            self._processes.clear()
            self._changed.notify_all()
        for process in processes:
            process.dismiss()
        for process in processes:
            process.end()

    def _keep(self) -> None:
        """Start and end spares until `close`."""
        while True:
            with self._changed:
                if self._closed:
                    return
                self._pool.expire(self._now())
                dismissed = self._surplus()
                kind = self._pool.missing()
                due = None if kind is None else self._pool.due_in(self._now()) / 1000
                if kind is None or due is None or due > 0 or dismissed:
                    self._changed.wait(_LOOK_SECONDS if due is None else min(due, _LOOK_SECONDS))
                elif not self._has_memory(self._min_free):
                    self._changed.wait(_LOOK_SECONDS)
                else:
                    self._start(kind)
            for process in dismissed:
                process.end()

    def _surplus(self) -> list[SpareProcess]:
        """Dismiss spares that are not wanted, or whose memory is needed."""
        surplus = self._pool.surplus() if self._has_memory(self._min_free // 2) else list(self._pool.spares)
        for spare in surplus:
            self._pool.drop(spare.spare_id)
            logger.info("the spare driver %d is not needed any more", self._processes[spare.spare_id].pid)
        dismissed = [self._processes.pop(spare.spare_id) for spare in surplus]
        for process in dismissed:
            process.dismiss()
        kinds = {spare.kind for spare in self._pool.spares}
        missing = self._pool.missing()
        self._examples = {kind: one for kind, one in self._examples.items() if kind in kinds or kind == missing}
        return dismissed

    def _has_memory(self, needed: int) -> bool:
        free = self._free()
        lacks = free is not None and free < needed
        if lacks and not self._without_memory:
            logger.warning("no spare driver is kept: %d MB of memory are available", (free or 0) >> 20)
        self._without_memory = lacks
        return not lacks

    def _start(self, kind: SpareKind) -> None:
        example, now = self._examples[kind], self._now()
        spare = Spare(secrets.token_hex(16), kind, now)
        try:
            process = SpareProcess(
                self._home,
                kind.python,
                self._command,
                kind.working_directory,
                driver_variables(self._home, example.environment, self._leader),
                WarmUp(spare.spare_id, example.configuration(), practises=self._pool.practises(kind)),
            )
        except OSError as error:
            self._pool.added(spare)
            pause = self._pool.lost(spare.spare_id, now)
            logger.warning("no spare driver can be started: %s; the next try is in %s ms", error, pause)
            return
        self._pool.added(spare)
        self._processes[spare.spare_id] = process
        threading.Thread(target=self._watch, args=(process,), name=f"spare-{process.pid}", daemon=True).start()

    def _watch(self, process: SpareProcess) -> None:
        report = process.report()
        if report.failure is None:
            with self._changed:
                self._pool.ready(process.spare_id, self._now())
                self._changed.notify_all()
            logger.info("the spare driver %d is warm", process.pid)
        process.wait()
        with self._changed:
            pause = self._pool.lost(process.spare_id, self._now())
            self._processes.pop(process.spare_id, None)
            self._changed.notify_all()
        if pause is not None:
            why = report.failure or "while it waited for a job"
            logger.warning("the spare driver %d has ended: %s; the next one is started in %d ms", process.pid, why, pause)


def _why_none(spares: Sequence[Spare], needed: SpareKind) -> str:
    """Return why no spare was given a job of a kind."""
    said = ["it still gets warm" if one.kind == needed else one.kind.difference(needed) for one in spares]
    return "; ".join(said) or "there is none at the moment"
