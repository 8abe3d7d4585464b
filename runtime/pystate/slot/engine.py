"""The interface between a slot and the engine that feeds its subtasks."""

from __future__ import annotations

from typing import Any, Protocol

from pystate.plan.task import JobEnvironment, TaskSpec
from pystate.slot.subtask import Subtask
from pystate.slot.subtask_checkpoints import Upload


class SlotEngine(Protocol):
    """What an engine does in one slot: makes subtasks, brings them what comes, and takes the calls of its driver's side."""

    @property
    def address(self) -> str | tuple[str, int]:
        """Where those who bring records find the slot."""

    def start(self) -> None:
        """Let records come; there are no subtasks yet."""

    def close(self) -> None:
        """Let no more come."""

    def make_subtask(
        self,
        task: TaskSpec,
        environment: JobEnvironment,
        upload: Upload,
        finished_epoch: int,
    ) -> Subtask:
        """Return the slot's subtask of a task, to be opened by the caller.

        Args:
            task: Which.
            environment: The job.
            upload: Runs the asynchronous part of a snapshot on another thread.
            finished_epoch: Where the restored state stands.
        """

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Bring records to subtasks, by uid, that are open by now."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's side in the driver.

        Raises:
            ControlError: It knows no such call.
        """
