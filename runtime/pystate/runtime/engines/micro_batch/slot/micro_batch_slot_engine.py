"""The micro-batch engine's side in one slot."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import ControlError, PystateError
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.data_server import DataServer
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker, TaskOutcome
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import EpochGateway, MicroBatchSubtask
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.slot_engine import SlotContext
from pystate.runtime.slot.subtask import Subtask
from pystate.runtime.slot.subtask_checkpoints import Upload


class DriverEpochGateway(EpochGateway):
    """Calls the driver.

    Args:
        gateway: The slot's gateway to the driver.
    """

    def __init__(self, gateway: CoordinatorGateway) -> None:
        self._gateway = gateway

    def epoch_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Report that all rows of an epoch have been received."""
        self._gateway.call("epoch_prepared", uid=uid, subtask=subtask, prepared=prepared.to_plain())

    def task_outcome(self, uid: str, subtask: int, asker: Asker) -> TaskOutcome:
        """Ask for the outcome of a Spark task attempt."""
        answer = self._gateway.call(
            "task_outcome", uid=uid, subtask=subtask, stage_id=asker.stage_id, task_attempt_id=asker.task_attempt_id
        )
        return TaskOutcome(answer)

    def source_messages(self, uid: str, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        """Send a reader's messages to its enumerator."""
        answers: list[Any] | None = self._gateway.call(
            "source_messages", uid=uid, subtask=subtask, number=number, messages=messages
        )
        return answers

    def input_available(self) -> None:
        """Report that a source has input."""
        with contextlib.suppress(PystateError):  # the attempt is over
            self._gateway.call("input_available")


@dataclass(frozen=True)
class MicroBatchSlotEngineFactory:
    """Creates the engine in each slot of an attempt.

    Attributes:
        finished_epoch: The epoch number of the restored state.
    """

    finished_epoch: int

    def __call__(self, slot: SlotContext) -> MicroBatchSlotEngine:
        """Return the engine for a slot."""
        return MicroBatchSlotEngine(slot, self.finished_epoch)


class MicroBatchSlotEngine:
    """Serves epochs to exchanges, and finishes them and takes barriers between them when the driver asks.

    Args:
        slot: The slot.
        finished_epoch: The epoch number of the restored state.
    """

    def __init__(self, slot: SlotContext, finished_epoch: int) -> None:
        self._slot = slot
        self._epochs = DriverEpochGateway(slot.gateway)
        self._finished_epoch = finished_epoch
        self._subtasks: dict[str, MicroBatchSubtask] = {}
        path = f"{slot.directory}/exchange" if slot.unix_sockets else None
        self._data = DataServer(
            slot.secret, slot.job_id, slot.attempt, self._subtasks, host=slot.host, ports=slot.ports, path=path
        )

    @property
    def address(self) -> str | tuple[str, int]:
        """The address at which exchanges reach the slot."""
        return self._data.address

    def start(self) -> None:
        """Start to accept exchanges."""
        self._data.start()

    def close(self) -> None:
        """Stop accepting exchanges."""
        self._data.close()

    def make_subtask(
        self,
        task: TaskSpec,
        environment: JobEnvironment,
        upload: Upload,
    ) -> Subtask:
        """Return the slot's subtask of a task."""
        return MicroBatchSubtask(
            task, self._slot.index, environment, self._slot.gateway, self._epochs, upload, self._finished_epoch
        )

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Serve epochs to the subtasks, which are open by now."""
        for uid, subtask in subtasks.items():
            assert isinstance(subtask, MicroBatchSubtask)  # noqa: S101 - created by this engine
            self._subtasks[uid] = subtask

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's driver side.

        Raises:
            ControlError: The call is unknown.
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
        if op == "source_messages":
            source = self._subtasks[request["uid"]].source
            assert source is not None  # noqa: S101 - only subtasks of a source send messages
            return source.answer(request["subtask"], request["number"], request["messages"])
        message = f"A slot does not know the op {op!r}."
        raise ControlError(message)
