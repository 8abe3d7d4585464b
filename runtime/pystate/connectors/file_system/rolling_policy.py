"""When a part file is closed, and another one begun."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import JobGraphError


@dataclass
class PartFileInfo:
    """What is known of a part file that is being written.

    Attributes:
        bucket_id: Its bucket.
        creation_time: By the clock, ms since 1970.
        last_update_time: When the last element came, ms since 1970.
        size: Its bytes.
    """

    bucket_id: str
    creation_time: int
    last_update_time: int
    size: int = 0


class RollingPolicy(ABC):
    """Says when a part file is closed; one of your own is a subclass."""

    @abstractmethod
    def should_roll_on_checkpoint(self, part_file_state: PartFileInfo) -> bool:
        """Whether a checkpoint ends the file, so that it is visible when the checkpoint is complete."""

    @abstractmethod
    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Whether the file ends before this element."""

    @abstractmethod
    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Whether the file ends by the clock, ms since 1970."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> RollingPolicy:
        """Return what ends a file by its size or its age.

        Args:
            part_size: Bytes.
            rollover_interval: A file is open for no longer, ms.
            inactivity_interval: A file that gets no element for so long is ended, ms.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Return what ends all files at each checkpoint, and never else."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Ends a file by its size or its age; see `RollingPolicy.default_rolling_policy`.

    Raises:
        JobGraphError: One of them is no number above 0.
    """

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        named = {"part_size": part_size, "rollover_interval": rollover_interval, "inactivity_interval": inactivity_interval}
        for name, value in named.items():
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                message = f"{name} is a number above 0, not {value!r}."
                raise JobGraphError(message, where="default_rolling_policy")
        self._part_size = part_size
        self._rollover_interval = rollover_interval
        self._inactivity_interval = inactivity_interval

    def should_roll_on_checkpoint(self, part_file_state: PartFileInfo) -> bool:
        """Whether it is too large."""
        return part_file_state.size > self._part_size

    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Whether it is too large."""
        return part_file_state.size > self._part_size

    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Whether it is too old, or too long without an element."""
        return (
            current_time - part_file_state.creation_time >= self._rollover_interval
            or current_time - part_file_state.last_update_time >= self._inactivity_interval
        )


class CheckpointRollingPolicy(RollingPolicy):
    """Ends all files at each checkpoint: what a bulk format needs. One of your own says when else."""

    def should_roll_on_checkpoint(self, part_file_state: PartFileInfo) -> bool:
        """Return true."""
        return True


class OnCheckpointRollingPolicy(CheckpointRollingPolicy):
    """Ends all files at each checkpoint, and never else."""

    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Return false."""
        return False

    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Return false."""
        return False
