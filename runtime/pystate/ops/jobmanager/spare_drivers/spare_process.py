"""The process of a spare driver, from the view of the job manager that started it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pystate.common.files.home import PystateHome
from pystate.common.processes.processes import is_stopped, processes_of_session, started_at
from pystate.ops.jobmanager.drivers.found_drivers import SPARE_ARGUMENT
from pystate.runtime.job_folder.spare_messages import SPARE_VARIABLE, SpareReport, TakenJob, WarmUp
from pystate.runtime.job_folder.temporary_folders import folder_prefix

SPARE_COMMAND = ("-m", "pystate.ops.warm_start.spare_driver")
_END_SECONDS = 5.0


class SpareProcess:
    """Communicates with a spare driver by its stdin and stdout; it ends when its stdin does.

    Args:
        home: The installation.
        python: The interpreter.
        command: Its arguments that start a spare driver.
        working_directory: Its working directory.
        environment: Its environment variables.
        warm_up: The warm-up request.

    Raises:
        OSError: It can't be started.
    """

    def __init__(
        self,
        home: PystateHome,
        python: str,
        command: tuple[str, ...],
        working_directory: str,
        environment: Mapping[str, str],
        warm_up: WarmUp,
    ) -> None:
        self.spare_id = warm_up.spare_id
        self._folder = home.spare_drivers / self.spare_id
        self.process = subprocess.Popen(  # noqa: S603 - the Python that runs a job, with our own module
            [python, *command, "--home", str(home.root), SPARE_ARGUMENT, self.spare_id],
            cwd=working_directory,
            env={**environment, SPARE_VARIABLE: self.spare_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self.process.stdin is None or self.process.stdout is None:
            message = "a process that was started with pipes has them"
            raise AssertionError(message)
        self._told, self._answer = self.process.stdin, self.process.stdout
        self.pid = self.process.pid
        self._working_directory, self._runs_in = working_directory, _identity(working_directory)
        self.started = started_at(self.pid)
        with contextlib.suppress(OSError):  # it has already ended: its pipes show it
            self._say(warm_up)

    @property
    def unfit(self) -> str | None:
        """Why it can't get a job although it is ready; None if it can. For example, its Spark release was replaced."""
        if self._runs_in is None or self._runs_in != _identity(self._working_directory):
            return "its working directory was replaced"
        if any(map(is_stopped, processes_of_session(self.pid))):  # its JVM is one of them
            return "it was stopped"
        return None

    def report(self) -> SpareReport:
        """Wait for its report of the warm-up."""
        line = self._answer.readline()
        try:
            return SpareReport.from_line(line)
        except ValueError:
            return SpareReport("it ended without a word" if not line else "it said something else")

    def give(self, job: TakenJob) -> None:
        """Give it its job; from now on it lives as long as the job.

        Raises:
            OSError: It has ended.
        """
        self._say(job)
        self._close()

    def wait(self) -> int:
        """Wait for its end and the end of its children; return the exit code."""
        code = self.process.wait()
        self._close()
        self.clean()
        return code

    def clean(self) -> None:
        """Delete the warm-up files that a killed spare leaves on the disk."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for base in (Path(tempfile.gettempdir()), Path("/dev/shm")):  # noqa: S108 - only what has our id in its name
            for left in base.glob(f"{folder_prefix(self.spare_id)}*"):
                shutil.rmtree(left, ignore_errors=True)

    def dismiss(self) -> None:
        """Ask it to end; returns at once."""
        self._close()

    def end(self) -> None:
        """Wait briefly for a dismissed spare to end, then kill it with all its child processes."""
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()

    def resident_bytes(self) -> int:
        """Return the memory of it and its child processes in bytes; 0 if unknown."""
        return resident_bytes(self.pid)

    def _say(self, message: WarmUp | TakenJob) -> None:
        self._told.write(message.to_line())
        self._told.flush()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._told.close()


def resident_bytes(session: int) -> int:
    """Return the memory of all processes of a session, with shared memory counted once."""
    found = 0
    for pid in processes_of_session(session):
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            found += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return found


def _identity(folder: str) -> tuple[int, int] | None:
    """Return the identity of a folder; None if it doesn't exist."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino
