"""How a subtask's input treats barriers, and what room it has."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.options import CheckpointingMode, CheckpointingOptions
from pystate.core.snapshot.barrier import CheckpointBarrier

MEMORY_BYTES = 8 << 20
"""What waits in front of a subtask in memory, with what is held back for a barrier."""

ROOM_BYTES = 512 << 10
"""Where what nothing holds back takes as much, those who send wait: a barrier behind it waits until it is processed."""


@dataclass(frozen=True)
class InputSettings:
    """The options of a subtask's input.

    Attributes:
        at_least_once: Nothing is held back for a barrier (`execution.checkpointing.mode`).
        unaligned: Barriers may overtake data (`execution.checkpointing.unaligned.enabled`).
        aligned_timeout_ms: Behind the trigger: how long they don't (`execution.checkpointing.aligned-checkpoint-timeout`); 0
            for not at all.
        memory_bytes: Of data that waits; past it goes to files.
        room_bytes: Of data that nothing holds back; past it those who send wait.
        directory: Where those are; None for the system's folder of temporary files.
    """

    at_least_once: bool = False
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    memory_bytes: int = 32 << 20
    room_bytes: int = 16 << 20
    directory: str | None = None

    @classmethod
    def of(cls, configuration: Configuration, directory: str | None = None) -> InputSettings:
        """Return what a job's options say.

        Args:
            configuration: The job's.
            directory: For files.
        """
        get, options = configuration.get, CheckpointingOptions
        return cls(
            at_least_once=get(options.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.AT_LEAST_ONCE,
            unaligned=get(options.ENABLE_UNALIGNED),
            aligned_timeout_ms=get(options.ALIGNED_CHECKPOINT_TIMEOUT),
            memory_bytes=MEMORY_BYTES,
            room_bytes=ROOM_BYTES,
            directory=directory,
        )

    def overtakes_at(self, barrier: CheckpointBarrier) -> int | None:
        """Return from when on a barrier overtakes data, ms since 1970; None for never."""
        if barrier.unaligned:
            return barrier.trigger_timestamp
        if self.at_least_once or not self.unaligned or barrier.savepoint:
            return None
        return barrier.trigger_timestamp + self.aligned_timeout_ms

    def overtakes_at_once(self, barrier: CheckpointBarrier) -> bool:
        """Return whether a barrier waits for nothing."""
        return self.overtakes_at(barrier) is not None and (barrier.unaligned or self.aligned_timeout_ms <= 0)
