"""The interface between an execution attempt and the engine that moves its records."""

from __future__ import annotations

from typing import Any, Protocol

from pystate.common.errors import PystateError
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.slot.slot_engine import SlotEngineFactory


class EngineEvents(Protocol):
    """What an engine tells its attempt, from any thread."""

    def engine_failed(self, error: PystateError, stack_trace: str) -> None:
        """Records can't go on."""

    def checkpoints_failed(self, error: PystateError) -> None:
        """More checkpoints failed in a row than is tolerated."""

    def sources_read(self) -> None:
        """All records of bounded sources are through, and what they did to the state is finished."""


class Engine(Protocol):
    """Brings records to the slots of one attempt, and barriers among them. The slots are the attempt's, which deploys."""

    @property
    def slot_engine(self) -> SlotEngineFactory:
        """Makes the engine's half in each slot."""

    def start(self, pool: SlotPool, events: EngineEvents) -> None:
        """Begin, once the slots have restored their state.

        Args:
            pool: The slots.
            events: Who is told.
        """

    def look(self) -> None:
        """Tell the attempt if the engine has ended; called every now and then by the attempt's thread."""

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a subtask that isn't about checkpoints.

        Raises:
            PystateError: It is refused.
        """

    def drain(self, savepoint: CheckpointRequest) -> None:
        """Bring no more records, let event time come to its end, and place a savepoint's barrier right behind it.

        No other barrier may come behind the last record.

        Args:
            savepoint: The job ends behind it.

        Raises:
            Exception: It could not begin, and all goes on; or windows and timers failed, of which the attempt has been told.
        """

    def running_in(self, slot: int) -> str:
        """Say what a slot was at, as the end of a sentence; nothing where it was idle."""

    def stop(self) -> None:
        """Bring no more; the attempt is over."""
