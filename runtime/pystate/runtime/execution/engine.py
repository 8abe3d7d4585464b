"""The interface between an execution attempt and the engine that moves its records."""

from __future__ import annotations

from typing import Any, Protocol

from pystate.common.errors import PystateError
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.slot.slot_engine import SlotEngineFactory


class EngineEvents(Protocol):
    """Receives the events of an engine, from any thread."""

    def engine_failed(self, error: PystateError, stack_trace: str) -> None:
        """Report that records can't be processed any more."""

    def checkpoints_failed(self, error: PystateError) -> None:
        """Report that more consecutive checkpoints failed than is tolerated."""

    def sources_read(self) -> None:
        """Report that all records of the bounded sources are processed and their state changes are finished."""


class Engine(Protocol):
    """Moves records and barriers to the slots of one attempt. The attempt owns and deploys the slots."""

    @property
    def slot_engine(self) -> SlotEngineFactory:
        """The factory of the engine's part in each slot."""

    def prepare(self) -> None:
        """Begin what can be done while the slots restore their state; returns at once."""

    def start(self, pool: SlotPool, events: EngineEvents) -> None:
        """Begin, once the slots have restored their state.

        Args:
            pool: The slots.
            events: Receives the engine's events.
        """

    def look(self) -> None:
        """Tell the attempt if the engine has ended; called periodically by the attempt's thread."""

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a subtask that isn't about checkpoints.

        Raises:
            PystateError: It is refused.
        """

    def drain(self, savepoint: CheckpointRequest) -> None:
        """Stop reading, advance event time to its end, and place a savepoint's barrier right after it.

        No other barrier may follow the last record.

        Args:
            savepoint: The job ends after it.

        Raises:
            Exception: It could not begin, and the attempt continues; or windows or timers failed, which the attempt has been
                told.
        """

    def running_in(self, slot: int) -> str:
        """Return what a slot was doing, as the end of a sentence; empty if it was idle."""

    def stop(self) -> None:
        """Stop moving records; the attempt is over."""
