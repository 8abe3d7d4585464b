"""The options that Flink has none of: ours, and Spark's."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.groups.checkpointing_options import MAX_FRAME_BYTES
from pystate.common.configuration.option_types import (
    ANY_PORT,
    BooleanType,
    DurationType,
    IntegerType,
    MemorySizeType,
    PortRangeType,
    StringType,
)


class SparkOptions:
    """The Spark application a job runs in. Keys that begin with `spark.` are handed to Spark as they are."""

    MASTER = ConfigOption[str | None](
        "pystate.spark.master",
        StringType('a Spark master such as "local[6,4]" or "spark://host:7077"'),
        None,
        "Spark's master. It needs N = 2 x parallelism + 2 cores or threads; where it is not set, it is"
        " local[N,4] with that N. On the real-time engine it needs as many as there are slots and subtasks.",
        ("spark.master",),
    )


class PystateOptions:
    """Ours; Flink has no such keys."""

    JOB_ID = ConfigOption[str | None](
        "pystate.job-id",
        StringType("32 hex digits"),
        None,
        "The id of the first job of a program that runs its jobs itself, and that something else starts again when it dies:"
        " spark-submit under a supervisor. A job of this id that has not ended goes on from its latest checkpoint; one that"
        " has ended isn't run again. Without it each start is a new job.",
    )
    JOBMANAGER_ADDRESS = ConfigOption[str | None](
        "pystate.jobmanager.address",
        StringType("host:port, several with commas between them"),
        None,
        "The job manager that a program which runs its jobs itself registers them with, wherever it was started:"
        " spark-submit, a notebook, python job.py. Of job managers with high availability any, or all. The environment"
        " variable PYSTATE_JOBMANAGER says the same where this isn't set. The program proves pystate.rest.token-file, else"
        " the token of its own home.",
        ("pystate.jobmanager",),
    )
    JOBMANAGER_REQUIRED = ConfigOption[bool](
        "pystate.jobmanager.required",
        BooleanType(),
        True,
        "Whether a program is refused whose job manager doesn't answer when its job starts. With false the job runs, and"
        " registers as soon as the job manager answers. One that goes away later stops no job in either case.",
    )
    EPOCH_INTERVAL = ConfigOption[int](
        "pystate.epoch.interval",
        DurationType(),
        0,
        "Least time from the start of one epoch (micro-batch) to the start of the next; 0 starts it as soon as the last one"
        " is done.",
    )
    SLOT_STARTUP_TIMEOUT = ConfigOption[int](
        "pystate.slot.startup-timeout",
        DurationType(minimum=1),
        60_000,
        "How long the job waits for the next of its slots to report, and on the real-time engine for its relays to come;"
        " longer on a machine where more threads want a CPU than it has.",
    )
    SLOT_PORTS = ConfigOption[range](
        "pystate.slot.ports",
        PortRangeType(),
        ANY_PORT,
        "The ports on which the driver and slots listen for each other, for clusters with firewalls. Each slot takes two"
        " ports of its host, one for control and one for data, the driver takes one, and while a job restarts the slots"
        " before may still have theirs.",
    )
    JOBMANAGER_MAX_STATE_SIZE = ConfigOption[int](
        "pystate.checkpoint.jobmanager.max-state-size",
        MemorySizeType(maximum=MAX_FRAME_BYTES),
        5 << 20,
        "With execution.checkpointing.storage = jobmanager, the largest state of one kind (such as its keyed state) of one"
        " subtask; a checkpoint with a larger one fails.",
    )
    JOBMANAGER_MAX_CHECKPOINT_SIZE = ConfigOption[int](
        "pystate.checkpoint.jobmanager.max-checkpoint-size",
        MemorySizeType(),
        256 << 20,
        "With execution.checkpointing.storage = jobmanager, the largest checkpoint, all subtasks and the sources' logs"
        " together; a larger one fails. The driver needs as much memory for each checkpoint that is retained or under way.",
    )
    STATE_EPOCH_MEMORY = ConfigOption[int](
        "pystate.state.epoch-memory",
        MemorySizeType(minimum=1),
        128 << 20,
        "About what the keyed state that the running epoch has read and written may take of a subtask's memory. On rocksdb"
        " what is more waits on the slot's disk for the end of the epoch; on hashmap, where all state is in memory, it"
        " means nothing.",
    )
    STATE_WINDOW_MEMORY = ConfigOption[int](
        "pystate.state.window-memory",
        MemorySizeType(),
        16 << 20,
        "About what the windows and sessions of a subtask that reduce or aggregate by event time may take of memory"
        " from one epoch to the next before they are written to the state backend: most windows end before that. Snapshots"
        " have them written. 0 to write them when an epoch ends. The times at which elements wait in an interval join stay"
        " in memory up to that size, too; those of other keys are read again.",
    )
    OUTPUT_MEMORY_SIZE = ConfigOption[int](
        "pystate.output.memory-size",
        MemorySizeType(),
        64 << 20,
        "What a subtask keeps of an epoch's output in memory, for a repeat of the epoch; the rest goes to a file.",
    )
    ROW_KINDS = ConfigOption[bool | None](
        "pystate.exchange.row-kinds",
        BooleanType(),
        None,
        "Whether declared rows keep their RowKind between tasks of the micro-batch engine, in a column of its own. By"
        " default they do where a module of the program imports RowKind, or the program has a format of changes. The"
        " real-time engine needs no such column.",
    )
    SOURCE_MAX_BYTES_PER_EPOCH = ConfigOption[int](
        "pystate.source.max-bytes-per-epoch",
        MemorySizeType(),
        32 << 20,
        "What one epoch reads at most of a source of files that sets neither maxBytesPerTrigger nor maxFilesPerTrigger, for"
        " each subtask of the job's parallelism: files as they stand on the storage, at least one file. 0 for no limit: the"
        " first epoch is then all that is there, and has to fit in memory (in slots: what half a second brings).",
    )
    SOURCE_MAX_ROWS_PER_EPOCH = ConfigOption[int](
        "pystate.source.max-rows-per-epoch",
        IntegerType(minimum=0),
        100_000,
        "What one epoch reads at most of a source of Spark's that counts rows and has no limit of its own, and of each"
        " source in slots, for each subtask of the job's parallelism. 0 for no limit.",
    )
    RECOVERY_ALLOW_OLDER_CHECKPOINT = ConfigOption[bool](
        "pystate.recovery.allow-older-checkpoint",
        BooleanType(),
        False,
        "Whether a job with sinks that commit exactly once goes back to an older checkpoint by itself where the newest one"
        " is damaged or gone: what was committed since is then written twice. Without it such a job fails, and says how to"
        " go on by hand. Other jobs go back in any case.",
    )
    KEEP_FAILING_RECORDS = ConfigOption[int](
        "pystate.debug.keep-failing-records",
        IntegerType(minimum=0, maximum=1000),
        0,
        "How many of the records and timers at which functions have failed are kept in the job's folder, the latest ones,"
        " each with its key's state, for pystate debug JOB. They hold the job's data. 0 keeps none.",
    )
    FAILING_RECORD_SIZE = ConfigOption[int](
        "pystate.debug.failing-record-size",
        MemorySizeType(minimum=1 << 10),
        1 << 20,
        "The most that is kept of one such failure: of the epoch's rows of its key as many, the last ones, and of the key's"
        " state, its windows and timers, all or nothing.",
    )
    SOURCE_ALLOW_NON_REPLAYABLE = ConfigOption[str | None](
        "pystate.source.allow-non-replayable",
        StringType('names with commas between them: of a source, its uid, or what can\'t be read again, such as "socket"'),
        None,
        "Sources that a job may read though they don't give again what they gave: a job is refused that reads any other."
        " What such a source gave after the latest checkpoint is lost with a failure, and so it is told as at-most-once at"
        " each start.",
    )
