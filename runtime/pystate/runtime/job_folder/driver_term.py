"""The term of a driver: the last driver that began a term runs the job.

A driver that was stopped, or whose machine slept, may resume after another one has taken over the job. It must then not
complete checkpoints, write to sinks, or write the job's files.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable

from pystate.common.errors import DriverReplacedError, SnapshotError, StorageError
from pystate.common.files.job_files import JobFile
from pystate.common.processes.processes import started_at
from pystate.runtime.job_folder.small_files import DriverTermFile

_RETRY_SECONDS = 1.0
LEADER_VARIABLE = "PYSTATE_LEADER_TOKEN"
"""Set in the environment of a driver whose job manager has stand-ins: the job manager's fencing token."""


def leader_of_this_process() -> int | None:
    """Return the fencing token of the job manager that started this process; None if it has no stand-in."""
    leader = os.environ.get(LEADER_VARIABLE)
    return None if leader is None else int(leader)


def begin_term(path: JobFile, leader: int | None, driver: str | None = None) -> None:
    """Begin a new term of a job, which ends the previous one.

    Args:
        path: The file that names the driver in charge.
        leader: The fencing token of the job manager in charge; None if it has no stand-in.
        driver: The token of the driver whose term begins; None only ends the previous term.

    Raises:
        DriverReplacedError: A job manager with a higher token has begun another driver's term.
    """
    named = DriverTermFile.read_from(path)
    if named is not None and leader is not None and (named.leader or 0) > leader:
        message = f"The job manager of term {leader} is not in charge of the job any more; that of term {named.leader} is."
        raise DriverReplacedError(message, where=str(path))
    pid = os.getpid()
    DriverTermFile(driver, pid, leader, started_at(pid)).write_to(path)


class DriverTerm:
    """The term in which one driver runs a job.

    Args:
        path: The file that names the driver in charge.
        leader: The fencing token of the job manager that started the driver; None if it has no stand-in.
    """

    def __init__(self, path: JobFile, leader: int | None = None) -> None:
        self._path = path
        self._leader = leader
        self._token = secrets.token_hex(16)

    @staticmethod
    def of_this_process(path: JobFile) -> DriverTerm:
        """Return a term under the job manager that started this process."""
        return DriverTerm(path, leader_of_this_process())

    def begin(self) -> None:
        """Begin the term, which ends the previous one.

        Raises:
            DriverReplacedError: The job manager that started this driver has been replaced itself.
        """
        begin_term(self._path, self._leader, self._token)

    def check(self) -> None:
        """Check that no other driver has taken over the job.

        Raises:
            DriverReplacedError: Another driver has.
            StorageError: It can't be determined.
        """
        try:
            named = DriverTermFile.read_from(self._path)
        except OSError as error:
            message = f"It can't be told whether another driver has taken the job over: {error}."
            raise StorageError(message, where=str(self._path)) from error
        if named is not None and named.driver != self._token:
            message = f"Another driver (process {named.pid}) has taken the job over; this one (process {os.getpid()}) ends."
            raise DriverReplacedError(message, where=str(self._path))

    def check_when_told(self, say: Callable[[str], None]) -> None:
        """Check that no other driver has taken over the job, waiting until that can be determined.

        Args:
            say: Is called with a sentence for users if that takes time.

        Raises:
            DriverReplacedError: Another driver has.
        """
        said = False
        while True:
            try:
                self.check()
            except SnapshotError as error:
                if not said:
                    say(f"WARNING: {error.message} The driver waits until it can.")
                said = True
                time.sleep(_RETRY_SECONDS)
            else:
                return
