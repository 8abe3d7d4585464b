"""Rolling policies: when a part file is closed and the next one begun."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import JobGraphError


@dataclass
class PartFileInfo:
    """The state of a part file in progress, as rolling policies see it.

    Attributes:
        bucket_id: Its bucket.
        creation_time: In processing time, ms since 1970.
        last_update_time: When the last element was written, ms since 1970.
        size: Its size in bytes.
    """

    bucket_id: str
    creation_time: int
    last_update_time: int
    size: int = 0


class RollingPolicy(ABC):
    """Decides when a part file is rolled; subclass it for your own."""

    @abstractmethod
    def should_roll_on_checkpoint(self, part_file_state: PartFileInfo) -> bool:
        """Return whether a checkpoint rolls the file, so that it becomes visible when the checkpoint completes."""

    @abstractmethod
    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Return whether the file is rolled before this element."""

    @abstractmethod
    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Return whether the file is rolled at this processing time, ms since 1970."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> RollingPolicy:
        """Return a policy that rolls files by size, age and inactivity.

        Args:
            part_size: The maximum size in bytes.
            rollover_interval: How long a file stays open at most, ms.
            inactivity_interval: How long a file stays open without a new element, ms.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Return a policy that rolls files only at checkpoints."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Rolls files by size, age and inactivity; see `RollingPolicy.default_rolling_policy`.

    Raises:
        JobGraphError: An argument isn't a positive number.
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
        """Return whether the size is reached."""
        return part_file_state.size > self._part_size

    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Return whether the size is reached."""
        return part_file_state.size > self._part_size

    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Return whether the file is too old or inactive."""
        return (
            current_time - part_file_state.creation_time >= self._rollover_interval
            or current_time - part_file_state.last_update_time >= self._inactivity_interval
        )


class CheckpointRollingPolicy(RollingPolicy):
    """Rolls all files at each checkpoint, as bulk formats need; subclasses can roll at other times, too."""

    def should_roll_on_checkpoint(self, part_file_state: PartFileInfo) -> bool:
        """Return true."""
        return True


class OnCheckpointRollingPolicy(CheckpointRollingPolicy):
    """Rolls files only at checkpoints."""

    def should_roll_on_event(self, part_file_state: PartFileInfo, element: Any) -> bool:
        """Return false."""
        return False

    def should_roll_on_processing_time(self, part_file_state: PartFileInfo, current_time: int) -> bool:
        """Return false."""
        return False
