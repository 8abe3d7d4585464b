"""State backends under their Flink names: each is a few settings that `env.set_state_backend` makes.

What a program sets so goes above the command line and the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import InitVar, dataclass

from pystate.common.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.common.option_types import MemorySizeType
from pystate.common.options import MAX_FRAME_BYTES, CheckpointingOptions, PystateOptions, StateBackendOptions
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
        """Make the settings that stand for this backend.

        Raises:
            ConfigurationError: One of its values is not allowed.
        """


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """State as Python objects in the memory of the slots: the fastest, for state that fits there."""

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`."""
        configuration.set(_BACKEND, "hashmap")


@dataclass(frozen=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on the slots' local disks, which may be larger than memory.

    Attributes:
        enable_incremental_checkpointing: Whether checkpoints write only what has changed; None leaves that to
            `execution.checkpointing.incremental`.
    """

    enable_incremental_checkpointing: bool | None = None

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`, and `execution.checkpointing.incremental` where that is said."""
        configuration.set(_BACKEND, "rocksdb")
        _set_incremental(configuration, self.enable_incremental_checkpointing)


@dataclass(frozen=True)
class CustomStateBackend(StateBackend):
    """A backend of the job's own.

    Attributes:
        factory: Path of a subclass of pystate's `KeyedStateBackend`, or of a function that takes the same arguments and
            returns one: `package.module:Class` or `package.module.Class`. Every slot must be able to import it.
    """

    factory: str

    def apply_to(self, configuration: Configuration) -> None:
        """Set `state.backend.type`."""
        configuration.set(_BACKEND, self.factory)


@dataclass(frozen=True)
class MemoryStateBackend(StateBackend):
    """Flink's old name for `HashMapStateBackend` with `JobManagerCheckpointStorage`.

    Attributes:
        max_state_size: The most bytes of one state of one subtask in a checkpoint, up to 10 MB.
        asynchronous: Whether snapshots are written while the next epochs run.
        using_asynchronous_snapshots: The same by PyFlink's name; None leaves it to `asynchronous`.
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
        """Return whether snapshots are written while the next epochs run."""
        return self.asynchronous

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, size and mode."""
        _apply_old(configuration, "hashmap", JobManagerCheckpointStorage(max_state_size=self.max_state_size))
        configuration.set(StateBackendOptions.ASYNC_SNAPSHOTS, self.asynchronous)


@dataclass(frozen=True)
class FsStateBackend(StateBackend):
    """Flink's old name for `HashMapStateBackend` with `FileSystemCheckpointStorage`.

    Attributes:
        path: Where checkpoints go.
        asynchronous: Whether snapshots are written while the next epochs run.
        using_asynchronous_snapshots: The same by PyFlink's name; None leaves it to `asynchronous`.
    """

    path: str
    asynchronous: bool = True
    using_asynchronous_snapshots: InitVar[bool | None] = None

    def __post_init__(self, using_asynchronous_snapshots: bool | None) -> None:
        """Read the argument under its other name."""
        if using_asynchronous_snapshots is not None:
            object.__setattr__(self, "asynchronous", using_asynchronous_snapshots)

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return whether snapshots are written while the next epochs run."""
        return self.asynchronous

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, directory and mode."""
        _apply_old(configuration, "hashmap", FileSystemCheckpointStorage(self.path))
        configuration.set(StateBackendOptions.ASYNC_SNAPSHOTS, self.asynchronous)


@dataclass(frozen=True)
class RocksDBStateBackend(StateBackend):
    """Flink's old name for `EmbeddedRocksDBStateBackend` with `FileSystemCheckpointStorage`.

    Attributes:
        path: Where checkpoints go.
        incremental: Whether checkpoints write only what has changed; None leaves that to
            `execution.checkpointing.incremental`.
    """

    path: str
    incremental: bool | None = None

    def apply_to(self, configuration: Configuration) -> None:
        """Set backend, storage, directory and `execution.checkpointing.incremental`."""
        _apply_old(configuration, "rocksdb", FileSystemCheckpointStorage(self.path))
        _set_incremental(configuration, self.incremental)


def state_backend_of(configuration: Configuration) -> StateBackend:
    """Return the backend that the settings stand for."""
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
