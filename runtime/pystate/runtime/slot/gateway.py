"""The RPCs of a slot to its coordinator."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pystate.common.errors import ConnectionLostError, ControlError, PystateError
from pystate.common.processes.control import ControlClient
from pystate.core.snapshot.operator_state import TaskState
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.slot.subtask import SubtaskGateway

_MOST_PARTS = 64
"""The acknowledgements in a message: state that is kept in memory is in it, up to 10 MB for each."""


class CoordinatorGateway(SubtaskGateway):
    """Calls the coordinator. Threads don't wait for each other, since an answer may take long.

    Acknowledgements are sent on a thread of their own: those that come while one is on its way go together, so that a
    busy coordinator gets few messages of many subtasks, and an idle one gets each at once.

    Args:
        connect: Opens a connection to the coordinator.
        identity: Sent with every call: the calling slot and attempt.
    """

    def __init__(self, connect: Callable[[], ControlClient], identity: dict[str, Any]) -> None:
        self._connect = connect
        self._identity = identity
        self._idle: list[ControlClient] = []
        self._idle_acknowledging: list[ControlClient] = []  # the coordinator serves a connection with these on its loop
        self._closed = False
        self._lock = threading.Lock()
        self._acknowledgements: list[dict[str, Any]] = []
        self._sending = False
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="acknowledge")

    def call(self, op: str, **arguments: Any) -> Any:
        """Call an op over a connection that no other thread uses.

        If the connection breaks, the op is called again over a new one: the coordinator accepts each op twice.

        Raises:
            ConnectionLostError: The new connection broke, too.
            PystateError: The coordinator's error, or it can't be reached.
        """
        return self._call(self._idle, op, arguments)

    def _call(self, idle: list[ControlClient], op: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            client = idle.pop() if idle else None
        try:
            return self._call_over(client or self._connect(), idle, op, arguments)
        except ConnectionLostError:
            return self._call_over(self._connect(), idle, op, arguments)

    def _call_over(self, client: ControlClient, idle: list[ControlClient], op: str, arguments: dict[str, Any]) -> Any:
        try:
            value = client.call(op, **self._identity, **arguments)
        except ConnectionLostError:
            client.close()
            raise
        except PystateError:
            self._keep(client, idle)
            raise
        self._keep(client, idle)
        return value

    def close(self) -> None:
        """Close all connections: the process may live on, and the coordinator has a thread for each of them."""
        with self._lock:
            self._closed = True
            idle = [*self._idle, *self._idle_acknowledging]
            self._idle.clear()
            self._idle_acknowledging.clear()
        self._sender.shutdown(wait=False, cancel_futures=True)
        for client in idle:
            client.close()

    def _keep(self, client: ControlClient, idle: list[ControlClient]) -> None:
        with self._lock:
            if not self._closed:
                idle.append(client)
                return
        client.close()

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> None:
        """Have the state handles of a checkpoint sent; does nothing once the gateway is closed."""
        part = {
            "checkpoint_id": checkpoint_id,
            "uid": uid,
            "subtask": subtask,
            "state": state.packed(),
            "metrics": metrics.to_plain(),
        }
        with self._lock:
            if self._closed:
                return
            self._acknowledgements.append(part)
            if not self._sending:
                self._sending = True
                self._sender.submit(self._send_acknowledgements)

    def _send_acknowledgements(self) -> None:
        while True:
            with self._lock:
                parts, self._acknowledgements = self._acknowledgements[:_MOST_PARTS], self._acknowledgements[_MOST_PARTS:]
                self._sending = bool(parts)
            if not parts:
                return
            try:
                self.acknowledge_all(parts)
            except Exception as error:  # unreported, it would leave the checkpoint waiting until it expires
                self._decline_all(parts, error)

    def acknowledge_all(self, parts: list[dict[str, Any]]) -> None:
        """Send acknowledgements, of one checkpoint or several; the coordinator declines those that it can't read.

        Raises:
            PystateError: The coordinator can't be reached, or the attempt is over.
        """
        self._call(self._idle_acknowledging, "acknowledge", {"parts": parts})

    def _decline_all(self, parts: list[dict[str, Any]], error: Exception) -> None:
        failure = error if isinstance(error, PystateError) else ControlError(f"It can't be acknowledged: {error!r}")
        reason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
        for part in parts:
            with contextlib.suppress(PystateError):  # the coordinator is gone, or has ended the attempt
                self.decline(part["checkpoint_id"], part["uid"], part["subtask"], failure, reason)

    def decline(
        self, checkpoint_id: int, uid: str, subtask: int, error: PystateError, reason: CheckpointFailureReason
    ) -> None:
        """Report that this subtask's part of a checkpoint failed."""
        self.call(
            "decline", checkpoint_id=checkpoint_id, uid=uid, subtask=subtask, error=error.to_dict(), reason=reason.name
        )

    def task_failed(
        self, uid: str, subtask: int, error: PystateError, stack_trace: str, record: bytes | None = None
    ) -> None:
        """Report that the job can't continue, with the record at which it failed where that is kept."""
        told = {"uid": uid, "subtask": subtask, "error": error.to_dict(), "stack_trace": stack_trace}
        self.call("task_failed", **(told if record is None else {**told, "record": record}))
