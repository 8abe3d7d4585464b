"""The options of a subtask's input: the treatment of barriers, and the buffer sizes."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingMode, CheckpointingOptions
from pystate.runtime.checkpoint.barrier import CheckpointBarrier

MEMORY_BYTES = 8 << 20
"""The queued data of a subtask in memory, including data held back for a barrier."""

ROOM_BYTES = 512 << 10
"""At this much queued data that isn't held back, senders wait: a barrier after it waits until it is processed."""


@dataclass(frozen=True)
class InputSettings:
    """The options of a subtask's input.

    Attributes:
        at_least_once: No channel is held back for a barrier (`execution.checkpointing.mode`).
        unaligned: Barriers may overtake data (`execution.checkpointing.unaligned.enabled`).
        aligned_timeout_ms: How long after the trigger barriers don't overtake yet
            (`execution.checkpointing.aligned-checkpoint-timeout`); 0 if they overtake at once.
        memory_bytes: The memory bound for queued data; more data goes to files.
        room_bytes: The limit for queued data that isn't held back; at the limit senders wait.
        directory: The directory of the files; None for the system's temporary directory.
    """

    at_least_once: bool = False
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    memory_bytes: int = 32 << 20
    room_bytes: int = 16 << 20
    directory: str | None = None

    @classmethod
    def of(cls, configuration: Configuration, directory: str | None = None) -> InputSettings:
        """Return the settings given by a job's options.

        Args:
            configuration: The job's configuration.
            directory: The directory for files.
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
        """Return the time from which a barrier overtakes data, ms since 1970; None for never."""
        if barrier.unaligned:
            return barrier.trigger_timestamp
        if self.at_least_once or not self.unaligned or barrier.savepoint:
            return None
        return barrier.trigger_timestamp + self.aligned_timeout_ms

    def overtakes_at_once(self, barrier: CheckpointBarrier) -> bool:
        """Return whether a barrier overtakes at once."""
        return self.overtakes_at(barrier) is not None and (barrier.unaligned or self.aligned_timeout_ms <= 0)
