"""State backend and checkpoint storage of a job, resolved from the options, legacy backend names of Flink's included."""

from __future__ import annotations

from dataclasses import dataclass, field

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingOptions,
    CheckpointStorageType,
    StateRecoveryOptions,
)
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.errors import ConfigurationError

_BACKEND = StateBackendOptions.STATE_BACKEND
_EVERY_EPOCH = CheckpointingOptions.EVERY_EPOCH
_STORAGE = CheckpointingOptions.CHECKPOINT_STORAGE
_DIRECTORY = CheckpointingOptions.CHECKPOINTS_DIRECTORY
# up to Flink 1.12 a backend's name said where its checkpoints go
_OLD_NAMES = {
    "memory": ("hashmap", CheckpointStorageType.JOBMANAGER),
    "jobmanager": ("hashmap", CheckpointStorageType.JOBMANAGER),
    "filesystem": ("hashmap", CheckpointStorageType.FILESYSTEM),
}


@dataclass(frozen=True)
class StateSettings:
    """The settings of a job's state backend and checkpoint storage.

    Attributes:
        backend: The current name of a backend, or the path of a factory.
        storage: The checkpoint storage.
        checkpoint_directory: The directory of checkpoints; None if there is none.
        max_state_size: With JOBMANAGER, the maximum bytes of one state of one subtask.
        max_checkpoint_size: With JOBMANAGER, the maximum bytes of one checkpoint.
        asynchronous: Whether snapshots are written while the next epochs run.
        notices: Sentences for the user who starts the job.
    """

    backend: str
    storage: CheckpointStorageType
    checkpoint_directory: str | None
    max_state_size: int
    max_checkpoint_size: int
    asynchronous: bool
    notices: list[str] = field(default_factory=list)

    @property
    def in_memory_only(self) -> bool:
        """Whether checkpoints are kept only in the memory of the driver."""
        return self.storage is CheckpointStorageType.JOBMANAGER and self.checkpoint_directory is None

    @staticmethod
    def of(configuration: Configuration) -> StateSettings:
        """Read the settings.

        Raises:
            ConfigurationError: They contradict each other, or a directory is missing.
        """
        get = configuration.get
        name, storage, directory = get(_BACKEND), get(_STORAGE), get(_DIRECTORY) or None
        notices = []
        backend, implied = _OLD_NAMES.get(name, (name, None))
        if implied is not None:
            today = f"{_BACKEND.key} = {backend} with {_STORAGE.key} = {implied.value}"
            if storage not in (None, implied):
                message = f"{_BACKEND.key} = {name} means {today}, but {_STORAGE.key} is {storage.value}."
                where = str(configuration.origin(_BACKEND.key))
                raise ConfigurationError(message, where=where, hint=f"set {_BACKEND.key} to {backend}")
            notices.append(f"{_BACKEND.key} = {name} is Flink's old name for {today}; please write that.")
            storage = implied
        if storage is None:
            storage = CheckpointStorageType.JOBMANAGER if directory is None else CheckpointStorageType.FILESYSTEM
        elif storage is CheckpointStorageType.FILESYSTEM and directory is None:
            message = f"Checkpoints are to go to files ({_STORAGE.key} = {storage.value}), and {_DIRECTORY.key} is not set."
            raise ConfigurationError(message, hint=f"-D {_DIRECTORY.key}=DIR")
        if not get(StateBackendOptions.ASYNC_SNAPSHOTS) and backend == "rocksdb":
            key = StateBackendOptions.ASYNC_SNAPSHOTS.key
            message = f"{key} is false, and the rocksdb state backend only supports asynchronous snapshots."
            raise ConfigurationError(message, where=str(configuration.origin(key)), hint=f"leave {key} out, or use hashmap")
        settings = StateSettings(
            backend=backend,
            storage=storage,
            checkpoint_directory=directory,
            max_state_size=get(PystateOptions.JOBMANAGER_MAX_STATE_SIZE),
            max_checkpoint_size=get(PystateOptions.JOBMANAGER_MAX_CHECKPOINT_SIZE),
            asynchronous=get(StateBackendOptions.ASYNC_SNAPSHOTS),
            notices=notices,
        )
        if settings.in_memory_only:
            notices.extend(_in_memory_notices(configuration))
        return settings


def is_checkpointing_enabled(configuration: Configuration) -> bool:
    """Return whether a job takes periodic checkpoints."""
    get = configuration.get
    return bool(get(_EVERY_EPOCH)) or get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is not None


def _in_memory_notices(configuration: Configuration) -> list[str]:
    if not is_checkpointing_enabled(configuration):
        return []
    savepoint = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    start = "from nothing" if savepoint is None else f"at the savepoint it was started from, {savepoint}"
    return [
        f"checkpoints are kept in the memory of the job's driver ({_STORAGE.key} = jobmanager, {_DIRECTORY.key} is not set):"
        f" if the driver dies they are gone, and the job begins {start}"
    ]
