"""`CheckpointConfig`: the checkpointing options of a program, with PyFlink's methods."""

from __future__ import annotations

from pystate.common.configuration import Configuration
from pystate.common.options import CheckpointingMode, CheckpointingOptions, ExternalizedCheckpointRetention
from pystate.common.state_settings import is_checkpointing_enabled
from pystate.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, checkpoint_storage_of


class CheckpointConfig:
    """Reads and sets the options of checkpointing; lengths of time are milliseconds.

    Got from `env.get_checkpoint_config()`; what it sets goes above the command line and the file. Each setter returns the
    object itself.

    Args:
        configuration: The environment's options.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether checkpoints are taken periodically."""
        return is_checkpointing_enabled(self._configuration)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the consistency of checkpoints."""
        return self._configuration.get(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the consistency of checkpoints."""
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, checkpointing_mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between periodic checkpoints; -1 where they are off."""
        interval = self._configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else interval

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between periodic checkpoints, which turns them on."""
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, checkpoint_interval)
        return self

    def disable_checkpointing(self) -> CheckpointConfig:
        """Take no periodic checkpoints, whatever command line and file say; savepoints are taken when they are asked for."""
        self._configuration.remove_config(CheckpointingOptions.CHECKPOINTING_INTERVAL.key)
        self._configuration.remove_config(CheckpointingOptions.EVERY_EPOCH.key)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Return how long a checkpoint may take."""
        return self._configuration.get(CheckpointingOptions.CHECKPOINTING_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set how long a checkpoint may take."""
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_TIMEOUT, checkpoint_timeout)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least time between the end of a checkpoint and the start of the next periodic one."""
        return self._configuration.get(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least time between the end of a checkpoint and the start of the next periodic one."""
        self._configuration.set(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS, min_pause_between_checkpoints)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints may be under way at once."""
        return self._configuration.get(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once."""
        self._configuration.set(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail before the job fails over."""
        return self._configuration.get(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail before the job fails over."""
        self._configuration.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, tolerable_checkpoint_failure_number)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether a job that fails or is cancelled may leave checkpoints."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return what becomes of the last checkpoints of a cancelled job."""
        return self._configuration.get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION)

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Set what becomes of the last checkpoints of a cancelled job."""
        self._configuration.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, retention)
        return self

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """`set_externalized_checkpoint_retention` by its name up to Flink 1.14."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """`set_externalized_checkpoint_retention` by its name up to Flink 1.20."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """`get_externalized_checkpoint_retention` by its name up to Flink 1.20."""
        return self.get_externalized_checkpoint_retention()

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return where the state of checkpoints goes; None where that follows from other settings."""
        return checkpoint_storage_of(self._configuration)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where the state of checkpoints goes."""
        storage.apply_to(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Write checkpoints to files in a directory: `FileSystemCheckpointStorage(checkpoint_path)`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))
