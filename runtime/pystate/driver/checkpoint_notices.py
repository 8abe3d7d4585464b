"""What a person should know at the start of a job about the checkpointing options: nothing is ignored in silence."""

from __future__ import annotations

from pystate.common.configuration import Configuration
from pystate.common.options import CheckpointingMode, CheckpointingOptions
from pystate.common.time import format_duration


def checkpoint_notices(configuration: Configuration) -> list[str]:
    """Return a sentence for each option that has no effect, or another one than its value says."""
    get, options = configuration.get, CheckpointingOptions
    interval, pause = get(options.CHECKPOINTING_INTERVAL), get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS)
    concurrent, every_epoch = get(options.MAX_CONCURRENT_CHECKPOINTS), get(options.EVERY_EPOCH)
    notices = []
    if get(options.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.AT_LEAST_ONCE:
        notices.append(
            f"{options.CHECKPOINTING_CONSISTENCY_MODE.key} = AT_LEAST_ONCE runs as exactly-once: barriers stand at the end "
            "of micro-batches, where no record waits for them, so there is nothing to gain"
        )
    if every_epoch:
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
