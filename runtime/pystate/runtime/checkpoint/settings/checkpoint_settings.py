"""The checkpointing settings read from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, CheckpointStorageType
from pystate.common.configuration.groups.execution_options import ExecutionOptions, RuntimeExecutionMode
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.service_options import WebOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import CheckpointFailedError, ConfigurationError, SnapshotError
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.memory_storage import MemoryCheckpointStorage
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass(frozen=True)
class CheckpointSettings:
    """The options of checkpointing.

    Attributes:
        interval_ms: Time between periodic checkpoints; None if there are none.
        engine_triggers: Whether the engine triggers each checkpoint itself instead of an interval, and needs them all.
        timeout_s: How long a checkpoint may take.
        min_pause_ms: The minimum time between the end of one and the trigger of the next.
        max_concurrent: The maximum number of concurrent checkpoints.
        tolerable_failures: The tolerable number of consecutive failures.
        file_threshold: State up to this many bytes is stored in `_metadata` itself; larger state goes to files.
        max_state_size: The maximum size of one state of one subtask in bytes, if there are no files.
        max_checkpoint_size: The maximum size of one checkpoint in bytes, if there are no files.
        retained: How many completed checkpoints are kept.
        retention: What happens to them at the end of the job.
        history_size: How many checkpoints the statistics remember.
        incremental: Whether checkpoints write only changes, if the state backend supports that.
        storage: The snapshot storage.
        batch: Whether the job runs in BATCH mode, in which there are no snapshots.
    """

    interval_ms: int | None
    engine_triggers: bool
    timeout_s: float
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    file_threshold: int
    max_state_size: int
    max_checkpoint_size: int
    retained: int
    retention: Any
    history_size: int
    incremental: bool
    storage: CheckpointStorageAccess
    batch: bool = False

    @staticmethod
    def of(configuration: Configuration, job_id: str) -> CheckpointSettings:
        """Read the settings of a job.

        Raises:
            ConfigurationError: They contradict each other.
            SnapshotError: A directory isn't a valid path, or its filesystem is unknown.
        """
        get = configuration.get
        state = StateSettings.of(configuration)
        engine_triggers = get(CheckpointingOptions.EVERY_EPOCH)
        if engine_triggers and state.checkpoint_directory is None:
            message = f"{CheckpointingOptions.EVERY_EPOCH.key} needs a place that outlives the driver."
            raise ConfigurationError(message, hint=f"-D {CheckpointingOptions.CHECKPOINTS_DIRECTORY.key}=DIR")
        if get(CheckpointingOptions.ENABLE_UNALIGNED) and get(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS) > 1:
            key = CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS.key
            message = f"{key} can't be more than 1 with {CheckpointingOptions.ENABLE_UNALIGNED.key}."
            raise ConfigurationError(message, hint=f"-D {key}=1")
        in_memory = state.storage is CheckpointStorageType.JOBMANAGER
        storage = MemoryCheckpointStorage if in_memory else CheckpointStorageAccess
        return CheckpointSettings(
            interval_ms=None if engine_triggers else get(CheckpointingOptions.CHECKPOINTING_INTERVAL),
            engine_triggers=engine_triggers,
            timeout_s=get(CheckpointingOptions.CHECKPOINTING_TIMEOUT) / 1000,
            min_pause_ms=get(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS),
            max_concurrent=get(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS),
            tolerable_failures=get(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER),
            file_threshold=get(CheckpointingOptions.FS_SMALL_FILE_THRESHOLD),
            max_state_size=state.max_state_size,
            max_checkpoint_size=state.max_checkpoint_size,
            retained=get(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS),
            retention=get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION),
            history_size=get(WebOptions.CHECKPOINTS_HISTORY_SIZE),
            incremental=get(CheckpointingOptions.INCREMENTAL_CHECKPOINTS) and not in_memory,
            storage=storage(
                state.checkpoint_directory,
                get(CheckpointingOptions.SAVEPOINT_DIRECTORY),
                job_id,
                get(CheckpointingOptions.CREATE_CHECKPOINT_SUB_DIR),
                for_processes=True,
            ),
            batch=get(ExecutionOptions.RUNTIME_MODE) is RuntimeExecutionMode.BATCH,
        )

    @property
    def enabled(self) -> bool:
        """Whether the job takes periodic checkpoints."""
        return self.engine_triggers or self.interval_ms is not None

    def check_streaming(self, job_id: str) -> None:
        """Reject snapshots of a job in BATCH mode: its state can't be restored by another job.

        Raises:
            CheckpointFailedError: It is one.
        """
        if self.batch:
            message = f"Job {job_id} is not a streaming job."
            raise CheckpointFailedError(message, hint="cancel a job in BATCH mode, and start it again from nothing")

    def inline_threshold(self, location: SnapshotLocation) -> int:
        """Return how many bytes of one state may be stored in its handle."""
        return self.max_state_size if location.inline_only else self.file_threshold

    def check_size(self, location: SnapshotLocation, size: int) -> SnapshotError | None:
        """Return why a snapshot of `size` bytes so far is too large; None if it isn't.

        Args:
            location: Where it goes; a bound there is for memory only.
            size: Bytes of all its state.
        """
        if not location.inline_only or size <= self.max_checkpoint_size:
            return None
        message = (
            f"The checkpoint is larger than the driver may keep in memory. Size={size}, maxSize={self.max_checkpoint_size}."
        )
        hint = (
            f"set {CheckpointingOptions.CHECKPOINT_STORAGE.key} = filesystem and a "
            f"{CheckpointingOptions.CHECKPOINTS_DIRECTORY.key}, or raise {PystateOptions.JOBMANAGER_MAX_CHECKPOINT_SIZE.key}"
        )
        return SnapshotError(message, hint=hint)
