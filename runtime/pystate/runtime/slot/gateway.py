"""The RPCs of a slot to its coordinator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pystate.common.errors import ConnectionLostError, PystateError
from pystate.common.processes.control import ControlClient
from pystate.core.snapshot.metadata import TaskState
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.slot.subtask import SubtaskGateway


class CoordinatorGateway(SubtaskGateway):
    """Calls the coordinator. Threads don't wait for each other, since an answer may take long.

    Args:
        connect: Opens a connection to the coordinator.
        identity: Sent with every call: the calling slot and attempt.
    """

    def __init__(self, connect: Callable[[], ControlClient], identity: dict[str, Any]) -> None:
        self._connect = connect
        self._identity = identity
        self._idle: list[ControlClient] = []
        self._closed = False
        self._lock = threading.Lock()

    def call(self, op: str, **arguments: Any) -> Any:
        """Call an op over a connection that no other thread uses.

        If the connection breaks, the op is called again over a new one: the coordinator accepts each op twice.

        Raises:
            ConnectionLostError: The new connection broke, too.
            PystateError: The coordinator's error, or it can't be reached.
        """
        with self._lock:
            client = self._idle.pop() if self._idle else None
        try:
            return self._call(client or self._connect(), op, arguments)
        except ConnectionLostError:
            return self._call(self._connect(), op, arguments)

    def _call(self, client: ControlClient, op: str, arguments: dict[str, Any]) -> Any:
        try:
            value = client.call(op, **self._identity, **arguments)
        except ConnectionLostError:
            client.close()
            raise
        except PystateError:
            self._keep(client)
            raise
        self._keep(client)
        return value

    def close(self) -> None:
        """Close all connections: the process may live on, and the coordinator has a thread for each of them."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _keep(self, client: ControlClient) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(client)
                return
        client.close()

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> None:
        """Send the state handles of a checkpoint."""
        self.call(
            "acknowledge",
            checkpoint_id=checkpoint_id,
            uid=uid,
            subtask=subtask,
            state=state.to_plain(),
            metrics=metrics.to_plain(),
        )

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
