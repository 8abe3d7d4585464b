"""Resolves the execution mode of a job, from its program, its configuration and its sources."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import ExecutionOptions, RuntimeExecutionMode
from pystate.common.errors import JobGraphError
from pystate.core.api.stream_graph import StreamGraph

_KEY = ExecutionOptions.RUNTIME_MODE.key
_CHECKPOINTING = (CheckpointingOptions.CHECKPOINTING_INTERVAL, CheckpointingOptions.EVERY_EPOCH)


def in_execution_mode(graph: StreamGraph, configuration: Configuration) -> Configuration:
    """Decide the mode of a job, mark its graph, and return the options for this mode.

    A job in BATCH mode takes no checkpoints, and so isn't restarted by default. AUTOMATIC is resolved.

    Args:
        graph: The program.
        configuration: The options in force; not changed.

    Raises:
        JobGraphError: A source has no end, or the job is to start from a savepoint, in BATCH mode.
    """
    mode = configuration.get(ExecutionOptions.RUNTIME_MODE)
    if mode is RuntimeExecutionMode.BATCH and not graph.is_bounded:
        endless = next(source for source in graph.live_sources() if not source.bounded)
        message = (
            f"Detected an UNBOUNDED source with the '{_KEY}' set to 'BATCH': {endless.name!r}. This combination is not "
            f"allowed, please set the '{_KEY}' to STREAMING or AUTOMATIC."
        )
        raise JobGraphError(message, where=endless.place, hint="or read what is there and no more: bounded=True")
    graph.batch = mode is not RuntimeExecutionMode.STREAMING and graph.is_bounded
    resolved = RuntimeExecutionMode.BATCH if graph.batch else RuntimeExecutionMode.STREAMING
    if not graph.batch:
        return configuration if mode is resolved else configuration.copy().set(ExecutionOptions.RUNTIME_MODE, resolved)
    if configuration.get(StateRecoveryOptions.SAVEPOINT_PATH) is not None:
        message = "A job in BATCH mode starts from no savepoint: it has no state before its first row."
        raise JobGraphError(message, where=_KEY, hint="run it in STREAMING mode")
    without = configuration.copy().set(ExecutionOptions.RUNTIME_MODE, resolved)
    for option in _CHECKPOINTING:
        for key in (option.key, *option.fallback_keys):
            without.remove_config(key)
    return without
