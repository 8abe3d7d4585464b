"""The process of a driver: starting it, finding it again, waiting for its end."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Protocol

from pystate.common.configuration.file_system_settings import settings_environment
from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate.common.files.regular_files import open_to_write
from pystate.common.processes.processes import signal_process, started_at
from pystate.ops.jobmanager.drivers.found_drivers import PATIENCE_SECONDS, candidates, find_drivers
from pystate.runtime.job_folder.driver_term import LEADER_VARIABLE
from pystate.runtime.job_folder.small_files import DriverProcessFile
from pystate.runtime.job_folder.spare_messages import SPARE_VARIABLE
from pystate.runtime.job_folder.submission import Submission

DRIVER_COMMAND = ("-m", "pystate.runtime.driver")
JOB_ID_VARIABLE = "PYSTATE_JOB_ID"
"""Set in a driver's environment, so that what it started can be told from all other processes."""

logger = logging.getLogger(__name__)

_ADOPTED_POLL_SECONDS = 0.25
_REFUSED_FOR_GOOD = (errno.E2BIG, errno.ENOEXEC, errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)
_ORPHANS_GRACE_SECONDS = 10.0
_ORPHANS_POLL_SECONDS = 0.05


class DriverRefusedError(PystateError):
    """The operating system permanently rejects the driver's command.

    Attributes:
        is_too_long: Whether arguments and environment are too long.
    """

    is_too_long = False


class DriverProcess(Protocol):
    """A driver that was alive when it was found or started."""

    pid: int

    def wait(self) -> int | None:
        """Block until it has ended; return its exit code (negative: a signal), None if unknown."""


class ChildDriver:
    """A driver that this job manager started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self) -> int | None:
        """Block until it has ended, and return its exit code."""
        return self._process.wait()


class AdoptedDriver:
    """A driver that an earlier job manager started; its exit code is unknown, as this process isn't its parent.

    Args:
        pid: Its process id.
        home: The installation that it writes its files to.
        leader: The fencing token of the job manager that started it; None without high availability, or if unknown.
        started: Its start time, which distinguishes it from later processes with the same id.
    """

    def __init__(self, pid: int, home: Path, leader: int | None = None, started: str | None = None) -> None:
        self.pid = pid
        self.started = started
        self.home = home
        self.leader = leader

    def wait(self) -> None:
        """Block until it has ended."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(self.pid)
                try:
                    if started_at(self.pid) != self.started:
                        return  # it has ended, and another process has its id
                    poll = select.poll()
                    poll.register(descriptor, select.POLLIN)
                    poll.poll()
                finally:
                    os.close(descriptor)
            return
        while started_at(self.pid) == self.started:
            time.sleep(_ADOPTED_POLL_SECONDS)


class DriverLauncher:
    """Starts drivers.

    Args:
        home: The folder of this installation.
        command: The interpreter's arguments that start a driver; tests replace it.
        patience_s: How long processes that claim to be drivers may take to prove it.

    Attributes:
        starts_drivers: Whether the command is that of drivers, in whose place spare ones can be.
        popen: What starts the process; tests replace it.
    """

    def __init__(
        self, home: PystateHome, command: Sequence[str] = DRIVER_COMMAND, patience_s: float = PATIENCE_SECONDS
    ) -> None:
        self._patience_s = patience_s
        self._home = home
        self._command = list(command)
        self.popen: Callable[..., Any] = subprocess.Popen
        self.starts_drivers = tuple(command) == tuple(DRIVER_COMMAND)

    def start(
        self, job_id: str, submission: Submission, environment: Mapping[str, str], leader: int | None = None
    ) -> ChildDriver:
        """Start the driver of a job in its own session, so that signals to this process or a terminal don't reach it.

        Args:
            job_id: The job.
            submission: The submission.
            environment: Its environment variables; if empty, those of this process.
            leader: This job manager's fencing token; None without high availability.

        Raises:
            DriverRefusedError: The process can't be started, and never will be.
            OSError: It can't be started at the moment.
        """
        directory = self._home.job(job_id)
        command = [submission.python, *self._command, "--home", str(self._home.root), "--job-id", job_id]
        command += ["--", submission.job_file, *submission.arguments]
        variables = {**driver_variables(self._home, environment, leader), JOB_ID_VARIABLE: job_id}
        directory.driver.unlink(missing_ok=True)  # the address of an earlier driver
        directory.process.unlink(missing_ok=True)
        with contextlib.ExitStack() as files:
            log = files.enter_context(_open_private(directory.log))
            output = files.enter_context(_open_private(directory.stdout)) if submission.attached else log
            try:
                process = self.popen(  # the submitter proved that it may run code
                    command,
                    cwd=submission.working_directory,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                if error.errno not in _REFUSED_FOR_GOOD:
                    raise
                refused = DriverRefusedError(str(error), where=submission.python)
                refused.is_too_long = error.errno == errno.E2BIG
                raise refused from error
        with contextlib.suppress(OSError):  # a full disk: the driver will identify itself
            DriverProcessFile(process.pid, started_at(process.pid)).write_to(directory.process)
        return ChildDriver(process)

    def end_replaced(self, job_id: str, driver: AdoptedDriver) -> None:
        """End a replaced driver, and all processes that it has started.

        Args:
            job_id: The job that it no longer runs.
            driver: The driver.
        """
        logger.warning("killing driver %d of job %s: another one has taken the job over", driver.pid, job_id)
        signal_process(driver.pid, driver.started, signal.SIGKILL)
        driver.wait()
        self.end_orphans(job_id, driver.pid)

    def end_orphans(self, job_id: str, driver: int) -> None:
        """Wait until no process of a dead driver is left: its JVM could still write to a sink, its slots hold memory.

        They end on their own, the JVM when its stdin closes, the rest when their parents or the coordinator are gone;
        processes left after a while are killed. Only on Linux, where processes can be identified by their environment.

        Args:
            job_id: The job.
            driver: The dead driver's process id, which is its session id: no new process gets it before the last process of
                the session has ended.
        """
        markers = {f"{JOB_ID_VARIABLE}={job_id}".encode()}
        with contextlib.suppress(OSError, PystateError):
            known = DriverProcessFile.read_from(self._home.job(job_id).process)
            if known is not None and known.pid == driver and known.spare is not None:
                markers.add(f"{SPARE_VARIABLE}={known.spare}".encode())  # processes it started before it had the job
        deadline = time.monotonic() + _ORPHANS_GRACE_SECONDS
        while orphans := _started_by(markers, driver):
            if time.monotonic() > deadline:
                logger.warning("killing what the dead driver %d of job %s has left: %s", driver, job_id, list(orphans))
                for pid, started in orphans.items():
                    signal_process(pid, started, signal.SIGKILL)
                return
            time.sleep(_ORPHANS_POLL_SECONDS)

    def find_running(self, of_other_homes: Collection[str] = ()) -> dict[str, AdoptedDriver]:
        """Return the living drivers by job id: only proven ones, regardless of the arguments of a process.

        Args:
            of_other_homes: Jobs whose drivers may have been started by the job manager of another home of this machine.
        """
        found = find_drivers(candidates(self._home, of_other_homes), self._patience_s)
        return {
            job_id: AdoptedDriver(driver.pid, driver.home, _leader_of(driver.pid), driver.started)
            for job_id, driver in found.items()
        }


def driver_variables(home: PystateHome, environment: Mapping[str, str], leader: int | None) -> dict[str, str]:
    """Return the environment variables of a driver, except those for its job.

    Args:
        home: The installation.
        environment: Those of the job; if empty, those of this process.
        leader: This job manager's fencing token; None without high availability.
    """
    variables = {**(environment or os.environ), "PYSTATE_HOME": str(home.root)}
    variables.pop(LEADER_VARIABLE, None)
    if leader is not None:
        variables[LEADER_VARIABLE] = str(leader)
        variables.update(settings_environment())  # the driver also writes to the shared storage
    return variables


def _open_private(path: Path) -> Any:
    descriptor = open_to_write(path, os.O_WRONLY | os.O_APPEND)
    os.set_blocking(descriptor, True)  # expected by the process that inherits it
    return os.fdopen(descriptor, "ab")


def _leader_of(pid: int) -> int | None:
    """Return the fencing token in a driver's environment."""
    if sys.platform != "linux":
        return None
    start = f"{LEADER_VARIABLE}=".encode()
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for variable in _environment_of(pid):
            if variable.startswith(start):
                return int(variable[len(start) :])
    return None


def _environment_of(pid: int | str) -> list[bytes]:
    return Path("/proc", str(pid), "environ").read_bytes().split(b"\0")


def _started_by(markers: Set[bytes], session: int) -> dict[int, str]:
    """Return the living processes of a session with a marker in their environment, and their start times."""
    if sys.platform != "linux":
        return {}
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                pid = int(entry.name)
                started = started_at(pid)
                if os.getsid(pid) == session and started is not None and not markers.isdisjoint(_environment_of(pid)):
                    found[pid] = started
    return found
