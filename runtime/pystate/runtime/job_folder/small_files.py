"""The content of the smallest files of a job's folder: reserved numbers, processes and addresses."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pystate
from pystate.common.processes.processes import is_alive, started_at, this_machine
from pystate.common.text.plain_data import Bounds, Natural, OpenPlainData, PlainData, unless_none
from pystate.runtime.job_folder.content import FileContent

DRIVER_PROTOCOL = 1
"""The version of what job managers and drivers say to each other: the calls of `runtime/driver/control_endpoint.py`, their
arguments and answers. A change that the other side can't do without raises it; a new call, or one more entry, doesn't."""
KNOWN_DRIVER_PROTOCOLS = range(DRIVER_PROTOCOL, DRIVER_PROTOCOL + 1)
"""What this version's job manager speaks. It is to know that of the release before, whose drivers it takes over."""

ProcessId = Annotated[int, Bounds(0, 2**31 - 1)]
Port = Annotated[int, Bounds(0, 2**16 - 1)]


@dataclass(frozen=True)
class EpochNumbersFile(OpenPlainData, FileContent):
    """`epochs.json`, written by the driver.

    Attributes:
        reserved: No epoch of the job has a number above it.
    """

    title: ClassVar[str] = "The bound of the job's epoch numbers"

    reserved: int


@dataclass(frozen=True)
class CheckpointIdsFile(OpenPlainData, FileContent):
    """`checkpoint-ids.json`, written by the driver; two drivers at a time count in it.

    Attributes:
        next: The next id; 1 is the first.
    """

    title: ClassVar[str] = "The job's next checkpoint id"

    next: Natural


@dataclass(frozen=True)
class DriverTermFile(OpenPlainData, FileContent):
    """`term.json`, written by the driver, and by a job manager that takes the job from one on another machine.

    Attributes:
        driver: The token of the driver in charge; None for no driver.
        pid: The process that wrote it.
        leader: The fencing token of the job manager in charge; None, without an entry, if it has no stand-in.
        started: When that process began, see `started_at`; None, without an entry, if unknown.
    """

    title: ClassVar[str] = "The term of the job's driver"

    driver: str | None
    pid: int
    leader: int | None = None
    started: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, without what doesn't apply."""
        plain = super().to_plain()
        return {key: value for key, value in plain.items() if value is not None or key not in ("leader", "started")}


@dataclass(frozen=True)
class DriverAddressFile(OpenPlainData, FileContent):
    """`driver.json`, written by the driver once it answers.

    Attributes:
        pid: The driver's process id.
        host: The host of its control endpoint.
        port: Its port.
        started: When the process began, see `started_at`; None if unknown.
        protocol: The `DRIVER_PROTOCOL` that it speaks.
        pystate_version: That of its pystate; None, without an entry, for those that didn't say.
    """

    title: ClassVar[str] = "The address of the job's driver"

    pid: ProcessId
    host: str
    port: Port
    started: str | None = None
    protocol: int = 1
    pystate_version: str | None = unless_none()

    @staticmethod
    def of_this_process(host: str, port: int) -> DriverAddressFile:
        """Return the content for the calling process, which listens there."""
        pid = os.getpid()
        return DriverAddressFile(pid, host, port, started_at(pid), DRIVER_PROTOCOL, pystate.__version__)


@dataclass(frozen=True)
class EmbeddedProgramFile(FileContent):
    """`embedded.json`, written by a program that runs its job itself: a script, a notebook. No job manager starts it again.

    Attributes:
        pid: The program's process id.
        host: The name of its machine.
        machine: The identity of that machine and its boot, see `this_machine`.
        started: When the process began, see `started_at`; None if unknown.
        program: Its file; empty where it has none, as in a notebook.
        log_job: The job in whose folder the log of its Spark session is; several may share one.
    """

    title: ClassVar[str] = "The program that runs the job"
    version: ClassVar[int | None] = 1

    pid: ProcessId
    host: str
    machine: str
    started: str | None
    program: str
    log_job: str

    @staticmethod
    def of_this_process(log_job: str) -> EmbeddedProgramFile:
        """Return the content for the calling process.

        Args:
            log_job: The job in whose folder the log of its Spark session is.
        """
        pid, program = os.getpid(), sys.argv[0] if sys.argv else ""
        path = os.path.abspath(program) if os.path.isfile(program) else ""
        return EmbeddedProgramFile(pid, socket.gethostname(), this_machine(), started_at(pid), path, log_job)

    def runs(self) -> bool | None:
        """Whether the process exists; None if that can't be determined from this machine."""
        here = this_machine()
        if self.machine != here and (self.host != socket.gethostname() or _boot_of(self.machine) == _boot_of(here)):
            return None  # another host, or another container of this one, with other process ids
        if self.started is None:
            return is_alive(self.pid)
        return started_at(self.pid) == self.started


@dataclass(frozen=True)
class DriverProcessFile(OpenPlainData, FileContent):
    """`process.json`, written by the job manager that has started the driver.

    Attributes:
        pid: The driver's process id.
        started: When it began, see `started_at`; None if unknown.
        spare: The id that it had as a spare driver; None if it was started for the job.
    """

    title: ClassVar[str] = "The process of the job's driver"

    pid: int
    started: str | None = None
    spare: str | None = None


@dataclass(frozen=True)
class SessionFile(FileContent):
    """`session.json`, written by the driver when it creates its Spark session; its content never leaves the job's folder.

    Attributes:
        configuration: Key -> text: the configuration of the session, from file, command line and program.
    """

    title: ClassVar[str] = "The configuration of the job's Spark session"
    version: ClassVar[int | None] = 1

    configuration: dict[str, str]


@dataclass(frozen=True)
class ReplicaFile(FileContent):
    """`replica.json`, written by the job manager.

    Attributes:
        uri: The folder of the job's replicated files.
    """

    title: ClassVar[str] = "The place of the job's replica"
    version: ClassVar[int | None] = 1

    uri: str


@dataclass(frozen=True)
class SourcesInSlotsFile(OpenPlainData, FileContent):
    """`sources-in-slots.json`, written by the driver of a job on the micro-batch engine.

    Attributes:
        path: The snapshot that the job was started from; empty for none.
        uids: The sources whose position is state of slots, so that they stay there.
    """

    title: ClassVar[str] = "The sources that stay in slots"

    path: str
    uids: list[str]


@dataclass(frozen=True)
class EnvironmentFile(FileContent):
    """`environment.json`, written by the job manager; deleted when the job ends, since it may hold secrets.

    Attributes:
        variables: The environment variables of the job's driver.
    """

    title: ClassVar[str] = "The environment of the job's driver"

    variables: dict[str, str]

    def to_plain(self) -> dict[str, Any]:
        """Return the variables themselves."""
        return dict(self.variables)

    @classmethod
    def from_plain(cls, plain: Any) -> EnvironmentFile:
        """Rebuild it.

        Raises:
            PlainDataError: It isn't one.
        """
        return EnvironmentFile(_Variables.from_plain({"variables": plain}).variables)


@dataclass(frozen=True)
class _Variables(PlainData):
    variables: dict[str, str]


def _boot_of(machine: str) -> str:
    """Return the boot id of the kernel in `this_machine`."""
    return machine.partition("/")[0]
