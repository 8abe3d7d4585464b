"""Why a barrier on every epoch is refused: an epoch that broke off would have to be run again with the same rows."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.errors import JobGraphError


def every_epoch_refusal(configuration: Configuration, in_slots: str | None) -> JobGraphError | None:
    """Return the refusal; None if it isn't asked for, or can be had.

    Args:
        configuration: The options in force.
        in_slots: The name of a source that the micro-batch engine runs in slots; None for no such source.
    """
    key, interval = CheckpointingOptions.EVERY_EPOCH.key, CheckpointingOptions.CHECKPOINTING_INTERVAL.key
    if not configuration.get(CheckpointingOptions.EVERY_EPOCH):
        return None
    if configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME:
        return JobGraphError(f"{key} is set; the real-time engine has no epochs.", hint=f"set {interval} instead")
    if in_slots is None:
        return None
    message = f"{in_slots!r} runs in slots: an epoch of it that is run again need not have the same rows, as {key} wants."
    hint = (
        f"set {interval} instead: sinks that commit are exactly-once with it; a function of for_each_batch that tells "
        "epochs apart by number needs a source that Spark reads, as env.from_data_frame(env.spark.readStream.text(folder))"
    )
    return JobGraphError(message, hint=hint)
