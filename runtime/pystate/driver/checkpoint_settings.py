"""What the coordinator reads from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.checkpoint.storage import CheckpointStorage
from pystate.common.configuration import Configuration
from pystate.common.options import CheckpointingOptions, WebOptions


@dataclass(frozen=True)
class CheckpointSettings:
    """The options of checkpointing.

    Attributes:
        interval_ms: Time between periodic checkpoints; None where they are off.
        timeout_s: How long a checkpoint may take.
        min_pause_ms: Least time between the end of one and the trigger of the next.
        max_concurrent: How many may be under way at once.
        tolerable_failures: How many may fail in a row.
        inline_threshold: State up to this many bytes stands in `_metadata` itself.
        retained: How many completed checkpoints are kept.
        retention: What the end of the job does to them.
        history_size: How many checkpoints the statistics remember.
        storage: Where snapshots go.
    """

    interval_ms: int | None
    timeout_s: float
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    inline_threshold: int
    retained: int
    retention: Any
    history_size: int
    storage: CheckpointStorage

    @staticmethod
    def of(configuration: Configuration, job_id: str) -> CheckpointSettings:
        """Read the settings of a job."""
        get = configuration.get
        return CheckpointSettings(
            interval_ms=get(CheckpointingOptions.CHECKPOINTING_INTERVAL),
            timeout_s=get(CheckpointingOptions.CHECKPOINTING_TIMEOUT) / 1000,
            min_pause_ms=get(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS),
            max_concurrent=get(CheckpointingOptions.MAX_CONCURRENT_CHECKPOINTS),
            tolerable_failures=get(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER),
            inline_threshold=get(CheckpointingOptions.FS_SMALL_FILE_THRESHOLD),
            retained=get(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS),
            retention=get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION),
            history_size=get(WebOptions.CHECKPOINTS_HISTORY_SIZE),
            storage=CheckpointStorage(
                get(CheckpointingOptions.CHECKPOINTS_DIRECTORY),
                get(CheckpointingOptions.SAVEPOINT_DIRECTORY),
                job_id,
                get(CheckpointingOptions.CREATE_CHECKPOINT_SUB_DIR),
            ),
        )
