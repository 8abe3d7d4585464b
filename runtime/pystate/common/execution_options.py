"""The options of how a job is executed, in groups with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.config_option import ConfigOption
from pystate.common.option_types import EnumType


class RuntimeExecutionMode(str, Enum):
    """Whether results are updated while input comes, or are final ones of all of it."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


class ExecutionOptions:
    """How jobs are executed."""

    RUNTIME_MODE = ConfigOption[RuntimeExecutionMode](
        "execution.runtime-mode",
        EnumType(RuntimeExecutionMode),
        RuntimeExecutionMode.STREAMING,
        "STREAMING updates results with each epoch. BATCH, for sources with an end alone, reads all of them in one epoch,"
        " key by key in the order of time, gives one final result per key and takes no checkpoints. AUTOMATIC is BATCH where"
        " all sources have an end.",
    )
