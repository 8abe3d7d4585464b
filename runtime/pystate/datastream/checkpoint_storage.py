"""Checkpoint storages under their Flink names: each is a few settings that `set_checkpoint_storage` makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.options import (
    OLD_STATE_BACKEND_NAMES,
    CheckpointingOptions,
    CheckpointStorageType,
    PystateOptions,
    StateBackendOptions,
)
from pystate.common.errors import ConfigurationError
from pystate.common.not_there import not_there

DEFAULT_MAX_STATE_SIZE: int = PystateOptions.JOBMANAGER_MAX_STATE_SIZE.default
"""Bytes: 5 MB, as in Flink."""


class CheckpointStorage(ABC):
    """Where the state of checkpoints goes. Savepoints always go to files."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Make the settings that stand for this storage.

        Raises:
            ConfigurationError: One of its values is not allowed.
        """


@dataclass(frozen=True)
class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of the job's driver, for small state and for trying things out.

    They survive a failure of the job, not one of the driver, unless there is a checkpoint directory: then each checkpoint is
    written there too, as one `_metadata` file.

    Attributes:
        checkpoint_path: That directory; None for the one that is configured, if any.
        max_state_size: The most bytes of one state of one subtask, up to 10 MB. A checkpoint with a larger one fails.
    """

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = DEFAULT_MAX_STATE_SIZE

    checkpoint_path: str | None = None
    max_state_size: int = DEFAULT_MAX_STATE_SIZE

    def get_checkpoint_path(self) -> str | None:
        """Return the directory; None for the one that is configured."""
        return self.checkpoint_path

    def get_max_state_size(self) -> int:
        """Return the most bytes of one state of one subtask."""
        return self.max_state_size

    def get_savepoint_path(self) -> None:
        """Return None: where savepoints go is configured apart."""

    def apply_to(self, configuration: Configuration) -> None:
        """Set storage, size and directory."""
        _set_storage(configuration, CheckpointStorageType.JOBMANAGER, self.checkpoint_path)
        configuration.set(PystateOptions.JOBMANAGER_MAX_STATE_SIZE, self.max_state_size)


@dataclass(frozen=True)
class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in files, on any filesystem that fsspec knows.

    Attributes:
        checkpoint_path: The directory.
        file_state_size_threshold: State of a subtask up to this many bytes goes into `_metadata` instead of a file of its
            own, at most 1 MB; None for what is configured.
        write_buffer_size: Has no effect, and the job says so; -1 leaves it out.

    Raises:
        ConfigurationError: No directory is named.
    """

    MAX_FILE_STATE_THRESHOLD: ClassVar[int] = 1 << 20

    checkpoint_path: str | None = None
    file_state_size_threshold: int | None = None
    write_buffer_size: int = -1

    def __post_init__(self) -> None:
        """Check the directory."""
        if self.checkpoint_path is None:
            message = "FileSystemCheckpointStorage names no directory."
            raise ConfigurationError(message, hint="write FileSystemCheckpointStorage('file:///var/checkpoints')")

    def get_checkpoint_path(self) -> str | None:
        """Return the directory."""
        return self.checkpoint_path

    def get_savepoint_path(self) -> None:
        """Return None: where savepoints go is configured apart."""

    def get_min_file_size_threshold(self) -> int:
        """Return up to how many bytes state goes into `_metadata`."""
        threshold = self.file_state_size_threshold
        return CheckpointingOptions.FS_SMALL_FILE_THRESHOLD.default if threshold is None else threshold

    def get_write_buffer_size(self) -> int:
        """Return what was set, -1 for nothing; it has no effect."""
        return self.write_buffer_size

    def apply_to(self, configuration: Configuration) -> None:
        """Set storage, directory and threshold."""
        _set_storage(configuration, CheckpointStorageType.FILESYSTEM, self.checkpoint_path)
        if self.file_state_size_threshold is not None:
            configuration.set(CheckpointingOptions.FS_SMALL_FILE_THRESHOLD, self.file_state_size_threshold)
        if self.write_buffer_size >= 0:
            configuration.set_integer("execution.checkpointing.write-buffer-size", self.write_buffer_size)


CustomCheckpointStorage = not_there(
    "CustomCheckpointStorage", "it wraps a Java class.", "use FileSystemCheckpointStorage: fsspec opens many storages"
)


def checkpoint_storage_of(configuration: Configuration) -> CheckpointStorage | None:
    """Return the storage that is set; None where it is left to follow from other settings."""
    storage = configuration.get(CheckpointingOptions.CHECKPOINT_STORAGE)
    directory = configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
    if storage is CheckpointStorageType.JOBMANAGER:
        return JobManagerCheckpointStorage(directory, configuration.get(PystateOptions.JOBMANAGER_MAX_STATE_SIZE))
    if storage is CheckpointStorageType.FILESYSTEM:
        threshold = CheckpointingOptions.FS_SMALL_FILE_THRESHOLD
        return FileSystemCheckpointStorage(
            directory or "", configuration.get(threshold) if configuration.contains(threshold) else None
        )
    return None


def _set_storage(configuration: Configuration, storage: CheckpointStorageType, directory: str | None) -> None:
    if configuration.get(StateBackendOptions.STATE_BACKEND) in OLD_STATE_BACKEND_NAMES:
        # such a name brings a storage along, which is the one that the program now replaces
        configuration.set(StateBackendOptions.STATE_BACKEND, "hashmap")
    configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, storage)
    if directory is not None:
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory)
