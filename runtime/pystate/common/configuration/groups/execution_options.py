"""The options of how a job is executed, in groups with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, DurationType, EnumType, IntegerType, StringType


class RuntimeExecutionMode(str, Enum):
    """Whether results are updated while input comes, or are final ones of all of it."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


class ExecutionEngine(str, Enum):
    """What brings records and barriers to subtasks."""

    MICRO_BATCH = "micro-batch"
    REAL_TIME = "real-time"


class CoreOptions:
    """Parallelism."""

    DEFAULT_PARALLELISM = ConfigOption[int](
        "parallelism.default",
        IntegerType(minimum=1, maximum=1 << 15),
        1,
        "The number of subtasks of each operator; run -p sets it.",
    )


class PipelineOptions:
    """The job itself."""

    NAME = ConfigOption[str | None](
        "pipeline.name",
        StringType(),
        None,
        "The name of the job, for people, where the program gives none.",
    )
    MAX_PARALLELISM = ConfigOption[int](
        "pipeline.max-parallelism",
        IntegerType(minimum=1, maximum=1 << 15, special=-1),
        -1,
        "The number of key groups, fixed for the life of the state, and the highest parallelism it can be rescaled to. -1"
        " derives it from the parallelism of the first start.",
    )
    AUTO_GENERATE_UIDS = ConfigOption[bool](
        "pipeline.auto-generate-uids",
        BooleanType(),
        True,
        "Give operators without a uid one made from their place in the program. Where it is false, a stateful operator"
        " without a uid is an error.",
    )
    AUTO_WATERMARK_INTERVAL = ConfigOption[int](
        "pipeline.auto-watermark-interval",
        DurationType(),
        200,
        "How often a WatermarkStrategy hands on how far event time is, on the real-time engine; 0 for never but at the end."
        " On the micro-batch engine it does at the end of each epoch.",
    )
    OBJECT_REUSE = ConfigOption[bool](
        "pipeline.object-reuse",
        BooleanType(),
        False,
        "Whether functions of one task are handed the same object where it has several owners: other functions that read the"
        " same stream, a side output, the state of the function before. Where it is false each gets a copy, which it may"
        " change; where it is true none may change what it gets.",
    )


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
    BUFFER_TIMEOUT_ENABLED = ConfigOption[bool](
        "execution.buffer-timeout.enabled",
        BooleanType(),
        True,
        "Whether results go to the next tasks once they have waited for execution.buffer-timeout.interval. Where it is false"
        " they wait until an output buffer is full, or a barrier, a timer or a watermark comes. Of the real-time engine.",
    )
    BUFFER_TIMEOUT = ConfigOption[int](
        "execution.buffer-timeout.interval",
        DurationType(),
        20,
        "How long results wait for others on the real-time engine before they go to the next tasks together; 0 for not at"
        " all. Each hop costs about a millisecond of processor time, however few records go together: see docs/real-time.md."
        " On the micro-batch engine records travel by epoch.",
        ("execution.buffer-timeout",),
    )
    MINI_BATCH_ENABLED = ConfigOption[bool](
        "execution.mini-batch.enabled",
        BooleanType(),
        False,
        "Whether rolling aggregations (sum, min, max, min_by, max_by and reduce on a keyed stream) give one result per key"
        " and epoch, the last one, in place of one per record: what table.exec.mini-batch.enabled is to Flink's SQL.",
    )
