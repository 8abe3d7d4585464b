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
    """The slot that an engine works in.

    Attributes:
        job_id: The job.
        attempt: The execution attempt.
        index: The slot's number.
        secret: What those who bring records must prove.
        gateway: The way to the driver.
        host: The address of this machine that driver and other slots reach.
        ports: On which slots may listen.
        directory: The slot's own folder; it goes with the slot.
        unix_sockets: Those who bring records are on the same machine.
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
    ) -> Subtask:
        """Return the slot's subtask of a task, to be opened by the caller.

        Args:
            task: Which.
            environment: The job.
            upload: Runs the asynchronous part of a snapshot on another thread.
        """

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Bring records to subtasks, by uid, that are open by now."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's side in the driver.

        Raises:
            ControlError: It knows no such call.
        """


class SlotEngineFactory(Protocol):
    """Makes an engine's half in a slot. The half in the driver hands it to the slots, so it is pickled."""

    def __call__(self, slot: SlotContext) -> SlotEngine:
        """Return the engine for a slot."""
