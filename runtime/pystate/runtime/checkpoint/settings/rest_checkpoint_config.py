"""The checkpointing options of a job in the format of Flink's `GET /jobs/:id/checkpoints/config`."""

from __future__ import annotations

from typing import Literal

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    CheckpointingOptions,
    CheckpointStorageType,
    ExternalizedCheckpointRetention,
)
from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.runtime.rest.checkpoint_messages import CheckpointConfigInfo, ExternalizedCheckpointInfo

NO_INTERVAL = 2**63 - 1
"""Flink's value if there are no periodic checkpoints."""

_BACKENDS = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}
_STORAGES = {
    CheckpointStorageType.FILESYSTEM: "FileSystemCheckpointStorage",
    CheckpointStorageType.JOBMANAGER: "JobManagerCheckpointStorage",
}


_MODES: dict[CheckpointingMode, Literal["exactly_once", "at_least_once"]] = {
    CheckpointingMode.EXACTLY_ONCE: "exactly_once",
    CheckpointingMode.AT_LEAST_ONCE: "at_least_once",
}


def checkpoint_config(configuration: Configuration) -> CheckpointConfigInfo:
    """Return the effective options, with Flink's names of backend and storage; times in ms.

    Fields without an option here have the value of a Flink that doesn't use the feature: there is no changelog.

    Raises:
        ConfigurationError: The options contradict each other.
    """
    get, options = configuration.get, CheckpointingOptions
    settings = StateSettings.of(configuration)
    interval = get(options.CHECKPOINTING_INTERVAL)
    retention = get(options.EXTERNALIZED_CHECKPOINT_RETENTION)
    in_stream = get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    exactly_once = get(options.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.EXACTLY_ONCE
    return CheckpointConfigInfo(
        mode=_MODES[get(options.CHECKPOINTING_CONSISTENCY_MODE)],
        interval=NO_INTERVAL if interval is None else interval,
        timeout=get(options.CHECKPOINTING_TIMEOUT),
        min_pause=get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS),
        max_concurrent=get(options.MAX_CONCURRENT_CHECKPOINTS),
        externalization=ExternalizedCheckpointInfo(
            enabled=retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
            delete_on_cancellation=retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        ),
        state_backend=_BACKENDS.get(settings.backend, settings.backend),
        checkpoint_storage=_STORAGES[settings.storage],
        unaligned_checkpoints=in_stream and exactly_once and get(options.ENABLE_UNALIGNED),
        tolerable_failed_checkpoints=get(options.TOLERABLE_FAILURE_NUMBER),
        aligned_checkpoint_timeout=get(options.ALIGNED_CHECKPOINT_TIMEOUT),
        checkpoints_after_tasks_finish=True,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=600_000,
        changelog_storage="memory",
    )
