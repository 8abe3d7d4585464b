"""The gateway to a job's driver."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any

import pystate
from pystate.common.errors import ControlError, error_from_dict
from pystate.common.files.home import JobDirectory
from pystate.common.files.job_files import read_job_file
from pystate.common.files.regular_files import MAX_WORD_BYTES, OddFileError
from pystate.common.processes.control import connect, receive_message, send_message
from pystate.common.processes.machine_load import busy_sentence, patient
from pystate.ops.jobmanager.drivers.driver_heartbeat import Sign, Silence
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.job_record import RecordPhase
from pystate.runtime.job_folder.small_files import KNOWN_DRIVER_PROTOCOLS, DriverAddressFile

CALL_TIMEOUT_SECONDS = 30.0
_CALLS_AT_ONCE = 16
"""How many calls one driver may hold up, so that a hanging one leaves threads for the others."""
_DEATH_NOTICE_SECONDS = 1.0


class DriverUnreachableError(ControlError):
    """The driver's control endpoint doesn't answer: it isn't up yet, hangs, or is gone."""


class DriverProtocolError(DriverUnreachableError):
    """The driver is of a version of pystate that this job manager can't talk to. The job goes on."""


class DriverGateway:
    """Calls the current driver of one job.

    Args:
        record: The job's record, which tells whether a driver runs.
        directory: The job's folder, with the address of the driver.

    Attributes:
        silence: The current silence of the driver, if known; None if it answers.
    """

    def __init__(self, record: KeptRecord, directory: JobDirectory) -> None:
        self._record = record
        self._directory = directory
        self._calls = threading.BoundedSemaphore(_CALLS_AT_ONCE)
        self._closed = threading.Event()
        self._closed_at = -math.inf
        self.silence: Silence | None = None
        if record.current.phase is RecordPhase.ENDED:
            self._closed.set()

    def close(self) -> None:
        """Close the gateway: no driver will run for this job, or write anything, any more."""
        self._closed_at = time.monotonic()
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        """Whether no driver will run for this job any more."""
        return self._closed.is_set()

    @property
    def closed_for_seconds(self) -> float:
        """The seconds since it was closed; infinite if an earlier job manager closed it."""
        return time.monotonic() - self._closed_at

    @property
    def has_no_driver(self) -> bool:
        """Whether no driver runs the job at the moment, e.g. between two drivers."""
        return self.is_closed or self._record.current.phase is RecordPhase.RESTARTING

    def wait_until_closed(self, seconds: float) -> bool:
        """Wait, with a timeout, until it is closed; return whether it is."""
        return self._closed.wait(seconds)

    def has_lost(self, pid: int | None) -> bool:
        """Wait briefly for a driver that didn't answer to turn out dead; return whether it did.

        Args:
            pid: Its process id.
        """
        deadline = time.monotonic() + _DEATH_NOTICE_SECONDS
        while time.monotonic() < deadline:
            if self._closed.wait(_DEATH_NOTICE_SECONDS / 20):
                return True
            record = self._record.current
            if record.pid != pid or record.phase is RecordPhase.RESTARTING:
                return True
        return False

    def check_protocol(self) -> None:
        """Check that the driver, if there is one and it has said where it listens, can be talked to at all.

        Raises:
            DriverProtocolError: It speaks another protocol.
        """
        if self.has_no_driver:
            return
        with contextlib.suppress(OSError, OddFileError, DamagedFileError):  # whoever calls it is told
            address = DriverAddressFile.read_from(self._directory.driver)
            if address is not None:
                _check_protocol(address, self._directory)

    def call(self, op: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Call the driver's control endpoint.

        Args:
            op: The operation.
            timeout: The timeout in seconds; None for the default, which allows for a busy machine.
            arguments: The operation's arguments.

        Raises:
            DriverUnreachableError: There was no answer, or too many calls are already waiting.
            PystateError: The error of the driver.
        """
        silence = self.silence
        if silence is not None and silence.last is Sign.STOPPED:
            pid = self._record.current.pid
            hint = f"kill -CONT {pid} lets it go on; another driver takes its place soon"
            raise DriverUnreachableError(silence.describe(pid), where=f"job {self._record.current.job_id}", hint=hint)
        if not self._calls.acquire(blocking=False):
            message = f"The job's driver has not answered {_CALLS_AT_ONCE} earlier requests yet."
            where, log = f"job {self._record.current.job_id}", self._directory.log
            raise DriverUnreachableError(message, where=where, hint=f"see {log}")
        try:
            seconds = patient(CALL_TIMEOUT_SECONDS) if timeout is None else timeout
            connecting = self.connect_seconds(seconds)
            return call_driver(self._directory, op, timeout=seconds, connecting=connecting, **arguments)
        finally:
            self._calls.release()

    def connect_seconds(self, timeout: float) -> float:
        """Return how long the driver may take to prove the job's secret, before it is asked.

        Args:
            timeout: How long it may take to answer.
        """
        return timeout


def call_driver(
    directory: JobDirectory, op: str, *, timeout: float, connecting: float | None = None, **arguments: Any
) -> Any:
    """Call a driver's control endpoint.

    Args:
        directory: The job's folder, with the endpoint's address and secret.
        op: The operation.
        timeout: The timeout in seconds.
        connecting: Seconds for connecting and proving the secret; None for the same.
        arguments: The operation's arguments.

    Raises:
        DriverUnreachableError: There was no answer.
        DriverProtocolError: It speaks another protocol; nothing was asked.
        PystateError: The error of the driver.
    """
    try:
        address = DriverAddressFile.read_from(directory.driver)
        secret = read_job_file(directory.secret, MAX_WORD_BYTES)
    except (OSError, OddFileError, DamagedFileError) as error:
        message = "The address of the job's driver can't be read."
        raise DriverUnreachableError(message, where=f"{directory.driver}: {error}", hint=f"see {directory.log}") from error
    if address is None:
        message = "The job's driver is still starting."
        raise DriverUnreachableError(message, where=str(directory.log), hint="try again in a moment")
    _check_protocol(address, directory)
    try:
        connection = connect((address.host, address.port), secret, timeout=timeout, proving=connecting)
    except (ControlError, OSError) as error:
        message = f"The job's driver (process {address.pid}) can't be reached."
        raise DriverUnreachableError(message, where=str(error), hint=f"see {directory.log}") from error
    with connection:
        try:
            send_message(connection, {"op": op, **arguments})
            reply = receive_message(connection)
        except (EOFError, OSError) as error:
            message = f"The job's driver (process {address.pid}) did not answer {op!r} within {timeout:.0f} s."
            hint = busy_sentence() or f"see {directory.log}"
            raise DriverUnreachableError(message, where=repr(error), hint=hint) from error
    if reply["ok"]:
        return reply["value"]
    raise error_from_dict(reply["error"])


def _check_protocol(address: DriverAddressFile, directory: JobDirectory) -> None:
    if address.protocol in KNOWN_DRIVER_PROTOCOLS:
        return
    known = " or ".join(map(str, KNOWN_DRIVER_PROTOCOLS))
    its = "a version of pystate" if address.pystate_version is None else f"pystate {address.pystate_version}"
    message = (
        f"The job's driver (process {address.pid}) is of {its} that speaks protocol {address.protocol} with job managers; "
        f"this job manager, pystate {pystate.__version__}, speaks {known}. The job goes on."
    )
    hint = (
        "end this job manager, let one of the driver's version stop the job, and resume it from its savepoint with this one"
    )
    raise DriverProtocolError(message, where=f"job {directory.path.name}", hint=hint)
