"""The calls of the micro-batch engine's subtasks to the driver."""

from __future__ import annotations

import contextlib
from typing import Any

from pystate.common.errors import PystateError
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker, TaskOutcome
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import EpochGateway
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.slot.gateway import CoordinatorGateway


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
