"""The driver's control endpoint, which the job manager calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import CheckpointFailedError, ControlError, JobCancelledError, PystateError
from pystate.common.files.home import JobDirectory, parse_job_id
from pystate.common.files.job_files import read_job_file
from pystate.common.files.regular_files import MAX_WORD_BYTES
from pystate.common.job_status import JobStatus
from pystate.common.processes.control import ControlServer
from pystate.core.queryable.proxy.kv_state_client_proxy import not_running
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.triggered_operations import TriggeredOperations
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.operation_file import OperationFile, OperationKind
from pystate.runtime.job_folder.small_files import DriverAddressFile


class ControlEndpoint:
    """Serves the control calls of one job.

    Args:
        directory: The job's files; the secret is read from there and the address written to it.
        status: Where the job stands.
        end_start: Ends a program that has not come to its job, once that is cancelled; None where no call comes so early.
        host: The address to listen on: that of this machine's loopback unless calls come from elsewhere.
        ports: On which ports; the first free one is taken.
    """

    def __init__(
        self,
        directory: JobDirectory,
        status: JobStatusStore,
        end_start: Callable[[], object] | None = None,
        *,
        host: str = "127.0.0.1",
        ports: range = ANY_PORT,
    ) -> None:
        self._directory = directory
        self._status = status
        self._end_start = end_start
        self._lock = threading.Lock()
        self._master: JobMaster | None = None
        self._start_cancelled = False
        self._operations = TriggeredOperations(directory, status.writes)
        secret = read_job_file(directory.secret, MAX_WORD_BYTES)
        self._server = ControlServer(secret, self._handle, host, ports=ports)

    def start(self) -> None:
        """Start serving, and publish the address."""
        self._operations.start()
        self._server.start()
        DriverAddressFile.of_this_process(self._server.host, self._server.port).write_to(self._directory.driver)

    def close(self) -> None:
        """Stop serving: the job has ended, and its process continues."""
        self._server.close()
        self._directory.driver.unlink(missing_ok=True)

    def serve(self, master: JobMaster) -> None:
        """Take calls that need a running job from now on.

        Raises:
            JobCancelledError: It was cancelled before the program came to it.
        """
        with self._lock:
            if self._start_cancelled:
                message = "The job was cancelled before it began."
                raise JobCancelledError(message)
            self._master = master

    def _cancel_start(self) -> bool:
        """Cancel the job of a program that has not come to it; return whether that is so."""
        with self._lock:
            if self._master is not None or self._end_start is None:
                return False
            self._start_cancelled = True
        self._status.update(JobStatus.CANCELED)
        threading.Thread(target=self._end_start, name="cancelled-start", daemon=True).start()
        return True

    def _handle(self, request: dict[str, Any]) -> Any:
        arguments = dict(request)
        op = str(arguments.pop("op"))
        if op == "status":
            return self._full_status()
        if op == "operation":
            return self._operation(parse_job_id(arguments["trigger_id"]))
        if op == "cancel" and self._cancel_start():
            return {}
        master = self._master
        if op == "query":
            return not_running() if master is None else master.query(arguments["request"])
        if master is None:
            message = f"The job is {self._status.state.value}; it can't do {op!r} yet."
            raise ControlError(message, hint="try again in a moment")
        if op == "cancel":
            master.cancel()
            return {}
        coordinator = master.coordinator
        if op == "metrics":
            return master.metrics().to_plain()
        if op == "checkpoints":
            return coordinator.statistics(arguments.get("limit"), arguments.get("before"))
        if op == "checkpoint_details":
            return coordinator.statistics_of(int(arguments["checkpoint_id"]))
        if op == "checkpoint_subtasks":
            return coordinator.statistics_of_subtasks(int(arguments["checkpoint_id"]), str(arguments["vertex_id"]))
        if op in ("trigger_savepoint", "trigger_checkpoint", "stop"):
            self._trigger(op, master, coordinator, arguments)
            return {}
        message = f"The driver does not know the op {op!r}."
        raise ControlError(message)

    def _full_status(self) -> dict[str, Any]:
        status, master = self._status.snapshot(), self._master
        del status["failures"]  # too large for a status call; the file has them
        if master is None:
            return status
        progress = master.engine.progress()
        records = progress.pop("records")
        progress["backlog"] = master.backlog(progress["backlog"])
        vertices = [
            {**vertex, "metrics": {**records.get(vertex["uid"], {}), **master.io_metrics(vertex["uid"])}}
            for vertex in status["vertices"]
        ]
        restore = master.restore_progress()
        return {**status, **progress, **master.event_time(), "vertices": vertices, "restore": restore}

    def _trigger(self, op: str, master: JobMaster, coordinator: CheckpointCoordinator, arguments: dict[str, Any]) -> None:
        trigger_id = parse_job_id(arguments["trigger_id"])
        target = arguments.get("target_directory")
        if op == "trigger_checkpoint":
            future = coordinator.trigger_checkpoint(full=bool(arguments.get("full")))
        else:
            chosen = savepoint_format(arguments.get("format"))
            cancel = bool(arguments.get("cancel_job"))
            said = arguments.get("message")
            stop = op == "stop"
            drain = stop and bool(arguments.get("drain"))
            future = master.savepoint(target, stop=stop, cancel=cancel, message=said, format=chosen, drain=drain)
        self._operations.begin(trigger_id)
        future.add_done_callback(lambda done: self._record(trigger_id, op, done))

    def _record(self, trigger_id: str, op: str, done: Future[CompletedCheckpoint]) -> None:
        kind, error = OperationKind(op.removeprefix("trigger_")), done.exception()
        if error is None:
            checkpoint = done.result()
            result = OperationFile(kind, location=checkpoint.path, checkpoint_id=checkpoint.checkpoint_id)
        else:
            result = OperationFile.failed(kind, as_person_error(error))
        self._operations.end(trigger_id, result)

    def _operation(self, trigger_id: str) -> dict[str, Any]:
        # asked in this order: one that ends meanwhile is in both
        running = self._operations.is_running(trigger_id)
        done = self._operations.result(trigger_id)
        if done is not None:
            return done.to_plain()
        if not running:
            message = f"There is no operation with trigger id {trigger_id}."
            raise ControlError(message)
        master = self._master
        if master is None:
            return {"status": "IN_PROGRESS", "acknowledged": 0, "total": 0, "bytes": 0}
        return {"status": "IN_PROGRESS", **master.coordinator.savepoint_progress()}


def savepoint_format(name: str | None) -> SavepointFormatType:
    """Return the savepoint format of that name.

    Raises:
        CheckpointFailedError: There is none.
    """
    try:
        return SavepointFormatType(name or SavepointFormatType.CANONICAL.value)
    except ValueError as error:
        message = f"Could not parse the savepoint format {name!r}. Expected one of: CANONICAL, NATIVE."
        raise CheckpointFailedError(message) from error


def as_person_error(error: BaseException) -> PystateError:
    """Return the error as a `PystateError`."""
    return error if isinstance(error, PystateError) else PystateError(f"{type(error).__name__}: {error}")
