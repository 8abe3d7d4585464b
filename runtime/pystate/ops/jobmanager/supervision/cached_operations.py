"""Triggered savepoints, checkpoints and stops of a job, and their results."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import CheckpointFailedError, JobTerminatedError, PystateError
from pystate.common.files.home import JobDirectory, new_job_id, parse_job_id
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway, DriverUnreachableError
from pystate.ops.jobmanager.drivers.job_status_provider import JobStatusProvider
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.runtime.driver.triggered_operations import MOST_RESULTS
from pystate.runtime.job_folder.job_record import RecordPhase
from pystate.runtime.job_folder.operation_file import OperationFile, OperationKind


class OperationNotFoundError(PystateError):
    """No operation has this trigger id."""


class RequestRefusedError(PystateError):
    """The driver rejects a request at once, such as a savepoint without a directory."""


@dataclass(frozen=True)
class Trigger:
    """A request to a driver, and its process id."""

    kind: OperationKind
    driver: int | None


class Triggers:
    """The latest triggers of a job, as many as there are results kept. Thread-safe.

    Queries for a result are told if the driver that got the request is gone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: BoundedDict[str, Trigger] = BoundedDict(MOST_RESULTS)

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, trigger_id: str, trigger: Trigger) -> None:
        """Add a trigger."""
        with self._lock:
            self._latest.put(trigger_id, trigger)

    def get(self, trigger_id: str) -> Trigger | None:
        """Return the trigger of an id; None if unknown or forgotten."""
        with self._lock:
            return self._latest.get(trigger_id)


GOES_ON = "the job goes on in another one as its restart strategy says"


class CachedOperationsHandler:
    """Passes operations to the driver of one job, once per trigger id, and finds their results.

    Args:
        record: The job's record.
        directory: The job's folder, where the driver leaves results.
        gateway: Calls the driver.
        status: The status of the job.
    """

    def __init__(
        self, record: KeptRecord, directory: JobDirectory, gateway: DriverGateway, status: JobStatusProvider
    ) -> None:
        self._record = record
        self._directory = directory
        self._gateway = gateway
        self._status = status
        self._triggers = Triggers()

    def trigger(self, op: str, trigger_id: str | None, **arguments: Any) -> str:
        """Trigger a savepoint, checkpoint or stop; return the id for its result.

        Args:
            op: The driver's operation.
            trigger_id: The id chosen by the caller; None to create one.
            arguments: Further arguments of the operation.

        Raises:
            JobTerminatedError: The job has ended.
            RequestRefusedError: The driver rejects it.
        """
        chosen = new_job_id() if trigger_id is None else parse_job_id(trigger_id)
        if trigger_id is not None and self._knows(chosen):
            return chosen  # a repeated request
        state, record = self._status.current().state, self._record.current
        if state.is_terminal:
            message = f"Job {record.job_id} has already ended ({state.value})."
            raise JobTerminatedError(message, hint="pystate list -a")
        triggered = Trigger(OperationKind(op.removeprefix("trigger_")), record.pid)
        try:
            self._gateway.call(op, trigger_id=chosen, **arguments)
        except DriverUnreachableError as error:
            if self._directory.operation(chosen).exists():  # only its answer was lost
                return chosen
            if self._gateway.is_closed or not self._gateway.has_lost(record.pid):
                raise
            ended = self._status.current().state
            if ended.is_terminal:  # and nobody has noticed that the driver is gone
                message = f"The job ended ({ended.value}) before its {triggered.kind.value} was complete."
                raise JobTerminatedError(message, hint="pystate list -a") from error
            message = f"The job's driver died, and {GOES_ON}. Nothing was done of what was asked for."
            hint = f"once it is RUNNING (pystate watch {record.job_id}), the same again"
            raise DriverUnreachableError(message, where=error.where, hint=hint) from error
        except PystateError as error:
            raise RequestRefusedError(error.message, where=error.where, hint=error.hint) from error
        self._triggers.add(chosen, triggered)
        return chosen

    def result(self, trigger_id: str) -> dict[str, Any]:
        """Return `{"status": "IN_PROGRESS", ...}`, or the content of the operation's file.

        Raises:
            OperationNotFoundError: There is no operation with this id.
            DamagedFileError: The file is damaged.
        """
        # checked before the file, which the driver may write as its last act
        gone, triggered, record = self._gateway.is_closed, self._triggers.get(trigger_id), self._record.current
        if triggered is not None and (record.pid != triggered.driver or record.phase is RecordPhase.RESTARTING):
            gone = True
        done = OperationFile.read_from(self._directory.operation(trigger_id))
        if done is not None:
            return done.to_plain()
        message = f"There is no operation with trigger id {trigger_id} of job {record.job_id}."
        if gone:
            if triggered is None:
                raise OperationNotFoundError(message)
            return self._lost(triggered).to_plain()
        try:
            return dict(self._gateway.call("operation", trigger_id=trigger_id))
        except DriverUnreachableError:
            if self._gateway.has_lost(record.pid):
                return self.result(trigger_id)
            raise
        except PystateError as refusal:
            raise OperationNotFoundError(message) from refusal

    def _lost(self, triggered: Trigger) -> OperationFile:
        ended = self._gateway.is_closed
        how = f"The job ended ({self._status.current().state.value})" if ended else "The job's driver died"
        message = f"{how} before its {triggered.kind.value} was complete{'.' if ended else f'; {GOES_ON}.'}"
        where, log = f"job {self._record.current.job_id}", self._directory.log
        return OperationFile.failed(triggered.kind, CheckpointFailedError(message, where=where, hint=f"see {log}"))

    def _knows(self, trigger_id: str) -> bool:
        if self._directory.operation(trigger_id).exists():
            return True
        try:
            self._gateway.call("operation", trigger_id=trigger_id)
        except PystateError:
            return False
        return True
