"""The interface between a slot and the engine that feeds its subtasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.subtask import Subtask
from pystate.runtime.slot.subtask_checkpoints import Upload


@dataclass(frozen=True)
class SlotContext:
    """The slot in which an engine runs.

    Attributes:
        job_id: The job.
        attempt: The execution attempt.
        index: The slot's number.
        secret: The secret that senders of records must prove that they know.
        gateway: The gateway to the driver.
        host: The address of this machine that the driver and other slots can reach.
        ports: The ports on which slots may listen.
        directory: The slot's own directory; deleted with the slot.
        unix_sockets: Whether senders of records are on the same machine.
    """

    job_id: str
    attempt: int
    index: int
    secret: bytes = field(repr=False)
    gateway: CoordinatorGateway
    host: str
    ports: range
    directory: str
    unix_sockets: bool


class SlotEngine(Protocol):
    """The part of an engine in one slot: creates subtasks, feeds them, and answers calls of the engine's driver side."""

    @property
    def address(self) -> str | tuple[str, int]:
        """The address at which senders of records reach the slot."""

    def start(self) -> None:
        """Start to accept records; there are no subtasks yet."""

    def close(self) -> None:
        """Stop accepting records."""

    def make_subtask(
        self,
        task: TaskSpec,
        environment: JobEnvironment,
        upload: Upload,
    ) -> Subtask:
        """Return the slot's subtask of a task; the caller opens it.

        Args:
            task: The task.
            environment: The job's environment.
            upload: Runs the asynchronous part of a snapshot on another thread.
        """

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Feed records to subtasks, by uid, which are open by now."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's driver side.

        Raises:
            ControlError: The call is unknown.
        """


class SlotEngineFactory(Protocol):
    """Creates an engine's slot side. The driver side sends it to the slots, so it is pickled."""

    def __call__(self, slot: SlotContext) -> SlotEngine:
        """Return the engine for a slot."""
