"""State backends under their Flink names; each stands for a few options.

Options set by a program override the command line and the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import InitVar, dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import MAX_FRAME_BYTES, CheckpointingOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions, StateBackendOptions
from pystate.common.configuration.option_types import MemorySizeType
from pystate.common.deprecation import deprecated
from pystate.common.errors import ConfigurationError, JobGraphError
from pystate.datastream.checkpoint_storage import (
    DEFAULT_MAX_STATE_SIZE,
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)

_BACKEND = StateBackendOptions.STATE_BACKEND
_INCREMENTAL = CheckpointingOptions.INCREMENTAL_CHECKPOINTS


class StateBackend(ABC):
    """Where a job keeps its keyed state."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Set the options of this backend.

        Raises:
            ConfigurationError: A value is not allowed.
        """


class PredefinedOptions(Enum):
    """Flink's sets of options for RocksDB; none has an effect."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects in the memory of the slots: the fastest, for state that fits."""

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`."""
        configuration.set(_BACKEND, "hashmap")


@dataclass(frozen=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on the slots' local disks; it may be larger than memory.

    Attributes:
        enable_incremental_checkpointing: Whether checkpoints are incremental; None for the option
            `execution.checkpointing.incremental`.
    """

    enable_incremental_checkpointing: bool | None = None
    _settings: dict[str, str] = field(default_factory=dict, init=False, repr=False, hash=False)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether this object enables incremental checkpoints."""
        return bool(self.enable_incremental_checkpointing)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set local folders for the files; has no effect: slots work below TMPDIR.

        Raises:
            JobGraphError: A path isn't absolute, or has another scheme than `file`.
        """
        self._settings["state.backend.rocksdb.localdir"] = ",".join(map(_local_path, paths))

    def get_db_storage_paths(self) -> list[str] | None:
        """Return the folders that were set; None for none."""
        paths = self._settings.get("state.backend.rocksdb.localdir")
        return None if paths is None else paths.split(",")

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose one of Flink's sets of options; has no effect: pystate sets RocksDB's options."""
        self._settings["state.backend.rocksdb.predefined-options"] = options.name

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the set that was chosen."""
        return PredefinedOptions[self._settings.get("state.backend.rocksdb.predefined-options", "DEFAULT")]

    def set_options(self, options_factory_class_name: str) -> None:
        """Set a Java class that makes RocksDB's options; has no effect: pystate sets them."""
        self._settings["state.backend.rocksdb.options-factory"] = options_factory_class_name

    def get_options(self) -> str | None:
        """Return the class that was set; None for none."""
        return self._settings.get("state.backend.rocksdb.options-factory")

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set the number of threads per subtask that write and read snapshot files."""
        self._settings[RocksDBOptions.CHECKPOINT_TRANSFER_THREAD_NUM.key] = str(number_of_transfering_threads)

    def get_number_of_transfer_threads(self) -> int:
        """Return the number of threads per subtask that write and read snapshot files."""
        threads = RocksDBOptions.CHECKPOINT_TRANSFER_THREAD_NUM
        return int(self._settings.get(threads.key, threads.default))

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`, and the other options of this object."""
        configuration.set(_BACKEND, "rocksdb")
        _set_incremental(configuration, self.enable_incremental_checkpointing)
        for key, value in self._settings.items():
            configuration.set_string(key, value)


@dataclass(frozen=True)
class CustomStateBackend(StateBackend):
    """A custom backend.

    Attributes:
        factory: Path of a subclass of pystate's `KeyedStateBackend`, or of a function that takes the same arguments and
            returns one: `package.module:Class` or `package.module.Class`. Every slot must be able to import it.
    """

    factory: str

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`."""
        configuration.set(_BACKEND, self.factory)


@deprecated(instead="HashMapStateBackend with JobManagerCheckpointStorage")
@dataclass(frozen=True)
class MemoryStateBackend(StateBackend):
    """Flink's old name for `HashMapStateBackend` with `JobManagerCheckpointStorage`.

    Attributes:
        max_state_size: The most bytes of one state of one subtask in a checkpoint, up to 10 MB.
        asynchronous: Whether snapshots are written asynchronously.
        using_asynchronous_snapshots: The same under PyFlink's name; None for the value of `asynchronous`.
    """

    max_state_size: int = DEFAULT_MAX_STATE_SIZE
    asynchronous: bool = True
    using_asynchronous_snapshots: InitVar[bool | None] = None

    def __post_init__(self, using_asynchronous_snapshots: bool | None) -> None:
        """Check the arguments."""
        if using_asynchronous_snapshots is not None:
            object.__setattr__(self, "asynchronous", using_asynchronous_snapshots)
        if self.max_state_size > MAX_FRAME_BYTES:
            most = MemorySizeType().format(MAX_FRAME_BYTES)
            message = (
                f"max_state_size is {self.max_state_size} bytes, more than a message to the driver may hold ({most}, "
                "MAX_FRAME_BYTES)."
            )
            raise ConfigurationError(message, where="MemoryStateBackend", hint="use FsStateBackend, or keep the default")

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return whether snapshots are written asynchronously."""
        return self.asynchronous

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, size and mode."""
        _apply_old(configuration, "hashmap", JobManagerCheckpointStorage(max_state_size=self.max_state_size))
        configuration.set(StateBackendOptions.ASYNC_SNAPSHOTS, self.asynchronous)


@deprecated(instead="HashMapStateBackend with FileSystemCheckpointStorage")
@dataclass(frozen=True)
class FsStateBackend(StateBackend):
    """Flink's old name for `HashMapStateBackend` with `FileSystemCheckpointStorage`.

    Attributes:
        path: The checkpoint directory.
        asynchronous: Whether snapshots are written asynchronously.
        using_asynchronous_snapshots: The same under PyFlink's name; None for the value of `asynchronous`.
    """

    path: str
    asynchronous: bool = True
    using_asynchronous_snapshots: InitVar[bool | None] = None

    def __post_init__(self, using_asynchronous_snapshots: bool | None) -> None:
        """Apply the argument's other name."""
        if using_asynchronous_snapshots is not None:
            object.__setattr__(self, "asynchronous", using_asynchronous_snapshots)

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return whether snapshots are written asynchronously."""
        return self.asynchronous

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, directory and mode."""
        _apply_old(configuration, "hashmap", FileSystemCheckpointStorage(self.path))
        configuration.set(StateBackendOptions.ASYNC_SNAPSHOTS, self.asynchronous)


@deprecated(instead="EmbeddedRocksDBStateBackend with FileSystemCheckpointStorage")
@dataclass(frozen=True)
class RocksDBStateBackend(StateBackend):
    """Flink's old name for `EmbeddedRocksDBStateBackend` with `FileSystemCheckpointStorage`.

    Attributes:
        path: The checkpoint directory.
        incremental: Whether checkpoints are incremental; None for the option
            `execution.checkpointing.incremental`.
    """

    path: str
    incremental: bool | None = None

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, directory and `execution.checkpointing.incremental`."""
        _apply_old(configuration, "rocksdb", FileSystemCheckpointStorage(self.path))
        _set_incremental(configuration, self.incremental)


def state_backend_of(configuration: Configuration) -> StateBackend:
    """Return the backend of a configuration."""
    name = configuration.get(_BACKEND)
    if name == "hashmap":
        return HashMapStateBackend()
    if name == "rocksdb":
        return EmbeddedRocksDBStateBackend(configuration.get(_INCREMENTAL) if configuration.contains(_INCREMENTAL) else None)
    asynchronous = configuration.get(StateBackendOptions.ASYNC_SNAPSHOTS)
    if name in ("memory", "jobmanager"):
        return MemoryStateBackend(configuration.get(PystateOptions.JOBMANAGER_MAX_STATE_SIZE), asynchronous)
    if name == "filesystem":
        return FsStateBackend(configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) or "", asynchronous)
    return CustomStateBackend(name)


def _apply_old(configuration: Configuration, backend: str, storage: CheckpointStorage) -> None:
    configuration.set(_BACKEND, backend)
    storage.apply_to(configuration)


def _set_incremental(configuration: Configuration, wanted: bool | None) -> None:
    if wanted is not None:
        configuration.set(_INCREMENTAL, wanted)


def _local_path(path: str) -> str:
    """Return a path without the scheme `file`, as Flink does."""
    parts = urlsplit(path)
    local = unquote(parts.path) if parts.scheme == "file" else path
    if parts.scheme not in ("", "file") or not PurePosixPath(local).is_absolute():
        message = f"set_db_storage_paths() takes absolute paths of local folders, not {path!r}."
        raise JobGraphError(message, hint="name one such as /var/rocksdb")
    return local
