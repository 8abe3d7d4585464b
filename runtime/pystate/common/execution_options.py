"""The options of how a job is executed, in groups with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.config_option import ConfigOption
from pystate.common.option_types import BooleanType, EnumType


class RuntimeExecutionMode(str, Enum):
    """Whether results are updated while input comes, or are final ones of all of it."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


class ExecutionEngine(str, Enum):
    """What brings records and barriers to subtasks."""

    MICRO_BATCH = "micro-batch"
    REAL_TIME = "real-time"


class ExecutionOptions:
    """How jobs are executed."""

    ENGINE = ConfigOption[ExecutionEngine](
        "execution.engine",
        EnumType(ExecutionEngine),
        ExecutionEngine.MICRO_BATCH,
        "micro-batch runs a job as epochs, each of which is a batch of a Spark query, with every source and sink of Spark's."
        " real-time runs its tasks side by side on Spark's Real-Time Mode, with barriers in the stream and results within"
        " milliseconds; its sources are collections, source functions and sources of splits, and its sinks those that write"
        " element by element.",
    )

    RUNTIME_MODE = ConfigOption[RuntimeExecutionMode](
        "execution.runtime-mode",
        EnumType(RuntimeExecutionMode),
        RuntimeExecutionMode.STREAMING,
        "STREAMING updates results with each epoch. BATCH, for sources with an end alone, reads all of them in one epoch,"
        " key by key in the order of time, gives one final result per key and takes no checkpoints. AUTOMATIC is BATCH where"
        " all sources have an end.",
    )
    MINI_BATCH_ENABLED = ConfigOption[bool](
        "execution.mini-batch.enabled",
        BooleanType(),
        False,
        "Whether rolling aggregations (sum, min, max, min_by, max_by and reduce on a keyed stream) give one result per key"
        " and epoch, the last one, in place of one per record: what table.exec.mini-batch.enabled is to Flink's SQL.",
    )
