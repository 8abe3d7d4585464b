"""`CheckpointConfig`: the checkpointing options of a program, with PyFlink's methods."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    CheckpointingOptions,
    ExternalizedCheckpointRetention,
)
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.deprecation import deprecated
from pystate.common.time import Duration
from pystate.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, checkpoint_storage_of

_FORCE_UNALIGNED = "execution.checkpointing.unaligned.forced"
_ANY_NUMBER = (1 << 31) - 1


class CheckpointConfig:
    """Gets and sets the options of checkpointing; durations are in milliseconds.

    Returned by `env.get_checkpoint_config()`; its settings override the command line and the file. Setters return the object
    itself.

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
        """Return the time between periodic checkpoints; -1 if they are disabled."""
        interval = self._configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else interval

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between periodic checkpoints, which enables them."""
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, checkpoint_interval)
        return self

    def disable_checkpointing(self) -> CheckpointConfig:
        """Disable periodic checkpoints, regardless of command line and file; savepoints can still be triggered."""
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
        """Return how many checkpoints may be in progress at once."""
        return self._configuration.get(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be in progress at once."""
        self._configuration.set(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail before the job fails over."""
        return self._configuration.get(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail before the job fails over."""
        self._configuration.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, tolerable_checkpoint_failure_number)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint makes the job fail over."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Set whether the first failed checkpoint makes the job fail over, or none does."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _ANY_NUMBER)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints may be retained when a job fails or is cancelled."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the retention of a cancelled job's last checkpoints."""
        return self._configuration.get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION)

    def set_externalized_checkpoint_retention(self, retention_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Set the retention of a cancelled job's last checkpoints."""
        self._configuration.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode)
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

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoint barriers overtake records, on the real-time engine."""
        return self._configuration.get(CheckpointingOptions.ENABLE_UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let checkpoint barriers overtake records, on the real-time engine."""
        self._configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers never overtake records."""
        return self.enable_unaligned_checkpoints(False)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what was set; it has no effect."""
        return self._configuration.get_boolean(_FORCE_UNALIGNED, False)

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let barriers overtake records in iterations, too; has no effect."""
        self._configuration.set_boolean(_FORCE_UNALIGNED, force_unaligned_checkpoints)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return how long barriers wait before they overtake records, from the checkpoint's trigger on."""
        return Duration.of_millis(self._configuration.get(CheckpointingOptions.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long barriers wait before they overtake records, from the checkpoint's trigger on; 0: not at all."""
        self._configuration.set(CheckpointingOptions.ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout.to_millis())
        return self

    @deprecated(instead="get_aligned_checkpoint_timeout")
    def get_alignment_timeout(self) -> Duration:
        """`get_aligned_checkpoint_timeout` by its older name."""
        return self.get_aligned_checkpoint_timeout()

    @deprecated(instead="set_aligned_checkpoint_timeout")
    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """`set_aligned_checkpoint_timeout` by its older name."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return where checkpoints are stored; None if other settings determine it."""
        return checkpoint_storage_of(self._configuration)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where checkpoints are stored."""
        storage.apply_to(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Write checkpoints to files in a directory: `FileSystemCheckpointStorage(checkpoint_path)`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))
