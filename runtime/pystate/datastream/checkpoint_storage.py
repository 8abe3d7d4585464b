"""Checkpoint storages under their Flink names; each stands for a few options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, CheckpointStorageType
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.state_backend_options import OLD_STATE_BACKEND_NAMES, StateBackendOptions
from pystate.common.errors import ConfigurationError
from pystate.common.not_there import not_there

DEFAULT_MAX_STATE_SIZE: int = PystateOptions.JOBMANAGER_MAX_STATE_SIZE.default
"""Bytes: 5 MB, as in Flink."""


class CheckpointStorage(ABC):
    """Where checkpoints are stored. Savepoints are always files."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Set the options of this storage.

        Raises:
            ConfigurationError: A value is not allowed.
        """


@dataclass(frozen=True)
class JobManagerCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in the memory of the job's driver, for small state and for experiments.

    They survive a failure of the job, but not of the driver, unless there is a checkpoint directory: then each checkpoint is
        also written there, as one `_metadata` file.

    Attributes:
        checkpoint_path: The checkpoint directory; None for the configured one, if any.
        max_state_size: The most bytes of one state of one subtask, up to 10 MB. A checkpoint with a larger one fails.
    """

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = DEFAULT_MAX_STATE_SIZE

    checkpoint_path: str | None = None
    max_state_size: int = DEFAULT_MAX_STATE_SIZE

    def get_checkpoint_path(self) -> str | None:
        """Return the directory; None for the configured one."""
        return self.checkpoint_path

    def get_max_state_size(self) -> int:
        """Return the most bytes of one state of one subtask."""
        return self.max_state_size

    def get_savepoint_path(self) -> None:
        """Return None: the savepoint directory is configured separately."""

    def apply_to(self, configuration: Configuration) -> None:
        """Set storage, size and directory."""
        _set_storage(configuration, CheckpointStorageType.JOBMANAGER, self.checkpoint_path)
        configuration.set(PystateOptions.JOBMANAGER_MAX_STATE_SIZE, self.max_state_size)


@dataclass(frozen=True)
class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in files, on any filesystem of fsspec.

    Attributes:
        checkpoint_path: The directory.
        file_state_size_threshold: State of a subtask up to this many bytes goes into `_metadata` instead of a file of its
            own, at most 1 MB; None for the configured threshold.
        write_buffer_size: Has no effect, which the job reports; -1 for unset.

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
        """Return None: the savepoint directory is configured separately."""

    def get_min_file_size_threshold(self) -> int:
        """Return the size in bytes up to which state goes into `_metadata`."""
        threshold = self.file_state_size_threshold
        return CheckpointingOptions.FS_SMALL_FILE_THRESHOLD.default if threshold is None else threshold

    def get_write_buffer_size(self) -> int:
        """Return the value that was set, -1 for none; it has no effect."""
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
    """Return the storage that is set; None if other settings determine it."""
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
        # such a name implies a storage, which the program replaces
        configuration.set(StateBackendOptions.STATE_BACKEND, "hashmap")
    configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, storage)
    if directory is not None:
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory)
