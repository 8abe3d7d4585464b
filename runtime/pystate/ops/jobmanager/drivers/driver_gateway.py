"""The way to a job's driver, for as long as there is one."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

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
from pystate.runtime.job_folder.small_files import DriverAddressFile

CALL_TIMEOUT_SECONDS = 30.0
_CALLS_AT_ONCE = 16
"""How many calls one driver may hold up, so that a hanging one leaves threads for the others."""
_DEATH_NOTICE_SECONDS = 1.0


class DriverUnreachableError(ControlError):
    """The driver's control endpoint does not answer: it is not up yet, hangs, or is gone."""


class DriverGateway:
    """Calls the drivers of one job, one after the other as they follow each other.

    Args:
        record: The job's record, which says whether a driver runs.
        directory: Its files, which say where that listens.

    Attributes:
        silence: For how long the driver has given no answer, where that is known; None where it answers.
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
        """No driver will run, or write anything, for this job any more."""
        self._closed_at = time.monotonic()
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        """Whether no driver will run for this job any more."""
        return self._closed.is_set()

    @property
    def closed_for_seconds(self) -> float:
        """How long ago it was closed; infinitely long where an earlier job manager has closed it."""
        return time.monotonic() - self._closed_at

    @property
    def has_no_driver(self) -> bool:
        """Whether no driver runs the job at this moment, as between two of them."""
        return self.is_closed or self._record.current.phase is RecordPhase.RESTARTING

    def wait_until_closed(self, seconds: float) -> bool:
        """Wait for a while until it is closed; return whether it is."""
        return self._closed.wait(seconds)

    def has_lost(self, pid: int | None) -> bool:
        """Wait for a moment whether the driver that did not answer turns out to be dead.

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

    def call(self, op: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Call the driver's control endpoint.

        Args:
            op: The operation.
            timeout: Seconds a hanging driver may hold us up; None for as long as one on a busy machine may need.
            arguments: The operation's arguments.

        Raises:
            DriverUnreachableError: Nobody answered, or too many wait for an answer already.
            PystateError: What the driver answered.
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
            return call_driver(self._directory, op, timeout=seconds, **arguments)
        finally:
            self._calls.release()


def call_driver(directory: JobDirectory, op: str, *, timeout: float, **arguments: Any) -> Any:
    """Call a driver's control endpoint.

    Args:
        directory: The job's files, with the endpoint's address and secret.
        op: The operation.
        timeout: Seconds a hanging driver may hold us up.
        arguments: The operation's arguments.

    Raises:
        DriverUnreachableError: Nobody answered.
        PystateError: What the driver answered.
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
    try:
        connection = connect((address.host, address.port), secret, timeout=timeout)
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
