"""Finds the drivers left by an earlier job manager. The arguments of a process prove nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pystate.common.errors import ControlError, PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id
from pystate.common.files.job_files import read_job_file
from pystate.common.files.regular_files import MAX_WORD_BYTES
from pystate.common.processes.control import connect
from pystate.common.processes.machine_load import PatientDeadline
from pystate.common.processes.processes import is_ours, started_at
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.small_files import DriverAddressFile, DriverProcessFile

F = TypeVar("F", bound=FileContent)

logger = logging.getLogger(__name__)

SPARE_ARGUMENT = "--spare"
"""In the arguments of a driver that was started before it had a job; its job is where the folder of one says so."""
PATIENCE_SECONDS = 20.0
"""How long in all processes may take to prove that they are drivers. One whose job manager was killed before it could write
down whom it had started has to import its modules first."""
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Candidate:
    """A process of this user that may be the driver of a job.

    Attributes:
        pid: Its process id.
        started: Its start time; see `started_at`.
        job_id: The job in its arguments.
        home: The installation in its arguments.
    """

    pid: int
    started: str
    job_id: str
    home: Path

    def may_have_just_started(self) -> bool:
        """Return whether it may still prove it: it lives, and the job manager hasn't recorded which process it started."""
        return (
            _read(DriverProcessFile, PystateHome(self.home).job(self.job_id).process) is None
            and started_at(self.pid) == self.started
        )

    def is_proven(self) -> bool:
        """Return whether it is the job's driver, by unforgeable evidence.

        Its process id and start time are those of the process that the job manager started for the job, or that wrote the
        driver's address; or the listener at that address proves the job's secret. The job's folder, which has this data,
        must be writable only by this user.
        """
        directory = PystateHome(self.home).job(self.job_id)
        if not _is_private(directory):
            return False
        said, known = _read(DriverAddressFile, directory.driver), _read(DriverProcessFile, directory.process)
        ours = (self.pid, self.started)
        if any(entry is not None and (entry.pid, entry.started) == ours for entry in (said, known)):
            return True
        if said is None or said.pid != self.pid:
            return False
        try:
            connect((said.host, said.port), read_job_file(directory.secret, MAX_WORD_BYTES), timeout=_ANSWER_SECONDS).close()
        except (ControlError, OSError, ValueError):
            return False
        return True


def find_drivers(candidates: Iterable[Candidate], patience_s: float = PATIENCE_SECONDS) -> dict[str, Candidate]:
    """Return the proven drivers, by job id.

    Args:
        candidates: The candidates.
        patience_s: How long to wait in all for living candidates that are not proven yet.
    """
    found: dict[str, Candidate] = {}
    open_ones = list(candidates)
    deadline = PatientDeadline(patience_s)
    while True:
        for candidate in open_ones:
            if candidate.is_proven():
                found[candidate.job_id] = candidate
        open_ones = [each for each in open_ones if each.job_id not in found and each.may_have_just_started()]
        if not open_ones:
            return found
        if deadline.has_passed():
            for each in open_ones:
                logger.warning(
                    "process %d names job %s in its arguments and does not prove to be its driver", each.pid, each.job_id
                )
            return found
        time.sleep(_POLL_SECONDS)


def candidates(home: PystateHome, of_other_homes: Collection[str] = ()) -> list[Candidate]:
    """Return the processes that may be drivers: of this user, session leaders, with a job in their arguments.

    Args:
        home: This installation.
        of_other_homes: Jobs whose drivers may have been started by the job manager of another home of this machine.
    """
    found = []
    for pid, command in processes():
        with contextlib.suppress(ValueError, IndexError, OSError, UsageError):
            named = Path(command[command.index("--home") + 1])
            started = started_at(pid)
            # a fork of a driver has its command line, but isn't the session leader
            if started is None or os.getsid(pid) != pid or not is_ours(pid):
                continue
            if SPARE_ARGUMENT in command:
                job_ids = _given_to(pid, started, PystateHome(named))
            else:
                job_ids = [parse_job_id(command[command.index("--job-id") + 1])]
            found += [
                Candidate(pid, started, job_id, named)
                for job_id in job_ids
                if named == home.root or job_id in of_other_homes
            ]
    return found


def _given_to(pid: int, started: str, home: PystateHome) -> list[str]:
    """Return the jobs that were given to a spare driver, by their folders: one, or none."""
    return [
        folder.name
        for folder in home.jobs.iterdir()
        if (known := _read(DriverProcessFile, home.job(folder.name).process)) is not None
        and (known.pid, known.started) == (pid, started)
    ]


def processes() -> list[tuple[int, list[str]]]:
    """Return (pid, command line) of all visible processes."""
    if sys.platform == "linux":
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = Path(entry.path, "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
                    found.append((int(entry.name), words[:-1]))
        return found
    listing = subprocess.run(  # noqa: S603 - a fixed command
        ["/bin/ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in listing.splitlines())
    return [(int(row[0]), row[1:]) for row in rows if row]


def _is_private(directory: JobDirectory) -> bool:
    """Return whether no other user can have written to a job's folder."""
    try:
        status = directory.path.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(kind: type[F], file: Path) -> F | None:
    try:
        return kind.read_from(file)
    except (OSError, PystateError):
        return None
