"""Notices at the start of a job about its checkpointing options: no option is ignored silently."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    CheckpointingOptions,
    CheckpointStorageType,
    RecoveryClaimMode,
    StateRecoveryOptions,
)
from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.time import format_duration
from pystate.core.state.base.loader import takes_native_snapshots


def checkpoint_notices(configuration: Configuration) -> list[str]:
    """Return a sentence for each option that has no effect, or a different one than its value says."""
    get, options = configuration.get, CheckpointingOptions
    interval, pause = get(options.CHECKPOINTING_INTERVAL), get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS)
    concurrent, engine_triggers = get(options.MAX_CONCURRENT_CHECKPOINTS), get(options.EVERY_EPOCH)
    notices = [*_snapshot_notices(configuration), *_recovery_notices(configuration)]
    in_stream = get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    if get(options.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.AT_LEAST_ONCE and not in_stream:
        notices.append(
            f"{options.CHECKPOINTING_CONSISTENCY_MODE.key} = AT_LEAST_ONCE runs as exactly-once: barriers stand at the end "
            "of micro-batches, where no record waits for them, so there is nothing to gain"
        )
    notices += _unaligned_notices(configuration, in_stream=in_stream)
    if engine_triggers:
        for option in (options.CHECKPOINTING_INTERVAL, options.MIN_PAUSE_BETWEEN_CHECKPOINTS):
            if configuration.contains(option):
                notices.append(f"{option.key} has no effect: {options.EVERY_EPOCH.key} puts a barrier on every epoch")
        return notices
    if interval is not None and interval < pause:
        notices.append(
            f"{options.CHECKPOINTING_INTERVAL.key} ({format_duration(interval)}) is raised to "
            f"{options.MIN_PAUSE_BETWEEN_CHECKPOINTS.key} ({format_duration(pause)})"
        )
    if pause > 0 and concurrent > 1:
        notices.append(
            f"{options.MAX_CONCURRENT_CHECKPOINTS.key} = {concurrent} has no effect: with "
            f"{options.MIN_PAUSE_BETWEEN_CHECKPOINTS.key} there is one checkpoint at a time"
        )
    return notices


def _unaligned_notices(configuration: Configuration, *, in_stream: bool) -> list[str]:
    get, options = configuration.get, CheckpointingOptions
    enabled, timeout = options.ENABLE_UNALIGNED, options.ALIGNED_CHECKPOINT_TIMEOUT
    if not get(enabled):
        return [f"{timeout.key} has no effect without {enabled.key}"] if get(timeout) else []
    if not in_stream:
        why = "barriers stand between epochs, so there are no records in flight to be overtaken"
        return [f"{enabled.key} has no effect on the micro-batch engine: {why}"]
    if get(options.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.AT_LEAST_ONCE:
        mode = options.CHECKPOINTING_CONSISTENCY_MODE.key
        return [f"{enabled.key} has no effect: {mode} = AT_LEAST_ONCE lets nothing wait"]
    return []


def _snapshot_notices(configuration: Configuration) -> list[str]:
    get, options, settings = configuration.get, CheckpointingOptions, StateSettings.of(configuration)
    in_memory = settings.storage is CheckpointStorageType.JOBMANAGER
    notices = []
    if get(options.INCREMENTAL_CHECKPOINTS):
        key = options.INCREMENTAL_CHECKPOINTS.key
        if in_memory:
            notices.append(f"{key} has no effect: checkpoints are kept in the memory of the job's driver")
        else:
            native = takes_native_snapshots(settings.backend)
            if native is None:
                notices.append(f"{key} has an effect only if what {settings.backend} makes takes native snapshots")
            elif not native:
                notices.append(
                    f"{key} has no effect: each checkpoint of the {settings.backend} state backend holds all state"
                )
    if get(options.LOCAL_RECOVERY) and in_memory:
        notices.append(f"{options.LOCAL_RECOVERY.key} has no effect: checkpoints are in the memory of the job's driver")
    return notices


def _recovery_notices(configuration: Configuration) -> list[str]:
    option = StateRecoveryOptions.RESTORE_MODE
    mode = configuration.get(option)
    if configuration.get(StateRecoveryOptions.SAVEPOINT_PATH) is None or mode is RecoveryClaimMode.NO_CLAIM:
        return []
    if not configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY):
        key = CheckpointingOptions.CHECKPOINTS_DIRECTORY.key
        return [f"{option.key} = {mode.value} has no effect: {key} is not set, so nothing ever takes the snapshot's place"]
    if mode is RecoveryClaimMode.LEGACY:
        return [
            f"{option.key} = LEGACY is deprecated: nobody owns the snapshot, and it must not be deleted while the job or "
            "any checkpoint of it is needed; choose CLAIM or NO_CLAIM"
        ]
    return []
