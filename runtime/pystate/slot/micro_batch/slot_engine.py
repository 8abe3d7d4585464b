"""The micro-batch engine's side in one slot."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import ControlError
from pystate.common.option_types import ANY_PORT
from pystate.plan.task import JobEnvironment, TaskSpec
from pystate.slot.micro_batch.data_server import DataServer
from pystate.slot.micro_batch.subtask import EpochGateway, MicroBatchSubtask
from pystate.slot.subtask import Subtask
from pystate.slot.subtask_checkpoints import Upload
from pystate.snapshot.barrier import CheckpointBarrier


class MicroBatchSlotEngine:
    """Takes epochs from exchanges, finishes them and places barriers between them when the driver says so.

    Args:
        secret: What an exchange must prove.
        job_id: Exchanges of other jobs are refused.
        attempt: So are those of other execution attempts.
        index: The slot's number.
        gateway: Whom subtasks ask and tell.
        host: The address to bind to; ignored with `path`.
        ports: The first of these that is free is taken; ignored with `path`.
        path: Bind to a Unix socket at this path instead.
    """

    def __init__(
        self,
        secret: bytes,
        job_id: str,
        attempt: int,
        index: int,
        gateway: EpochGateway,
        *,
        host: str,
        ports: range = ANY_PORT,
        path: str | None = None,
    ) -> None:
        self._index = index
        self._gateway = gateway
        self._subtasks: dict[str, MicroBatchSubtask] = {}
        self._data = DataServer(secret, job_id, attempt, self._subtasks, host=host, ports=ports, path=path)

    @property
    def address(self) -> str | tuple[str, int]:
        """Where exchanges find the slot."""
        return self._data.address

    def start(self) -> None:
        """Let exchanges come."""
        self._data.start()

    def close(self) -> None:
        """Let no more come."""
        self._data.close()

    def make_subtask(
        self,
        task: TaskSpec,
        environment: JobEnvironment,
        upload: Upload,
        finished_epoch: int,
    ) -> Subtask:
        """Return the slot's subtask of a task."""
        return MicroBatchSubtask(task, self._index, environment, self._gateway, upload, finished_epoch)

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Bring epochs to subtasks that are open by now."""
        for uid, subtask in subtasks.items():
            assert isinstance(subtask, MicroBatchSubtask)  # noqa: S101 - this engine's own
            self._subtasks[uid] = subtask

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's side in the driver.

        Raises:
            ControlError: It knows no such call.
        """
        op = request["op"]
        if op == "snapshot":
            between = CheckpointBarrier.from_plain(request["barrier"])
            for subtask in self._subtasks.values():
                subtask.snapshot_between_epochs(between)
            return None
        if op == "finish_epoch":
            barrier = None if request["barrier"] is None else CheckpointBarrier.from_plain(request["barrier"])
            for uid, task_attempt_id in request["task_attempts"].items():
                self._subtasks[uid].finish_epoch(request["epoch"], task_attempt_id, barrier)
            return None
        message = f"A slot does not know the op {op!r}."
        raise ControlError(message)
