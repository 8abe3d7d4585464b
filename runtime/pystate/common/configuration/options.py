"""The options this runtime knows, in groups with Flink's class and constant names.

Only keys that are honoured stand here: a key that changes nothing is refused like a misspelt one. `conf/flink-conf.toml` is
generated from these definitions.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import Any

from pystate.common.configuration.config_option import ConfigOption, options_of
from pystate.common.configuration.connector_options import connector_options
from pystate.common.configuration.deployment_options import DeploymentOptions, PythonOptions
from pystate.common.configuration.execution_options import ExecutionOptions, PipelineOptions
from pystate.common.configuration.file_system_options import FileSystemOptions, HdfsOptions, S3Options, StorageOptions
from pystate.common.configuration.job_manager_options import (
    HeartbeatManagerOptions,
    HighAvailabilityOptions,
    JobManagerOptions,
)
from pystate.common.configuration.metric_options import PrometheusReporterOptions
from pystate.common.configuration.option_types import (
    ANY_PORT,
    BooleanType,
    DurationType,
    EnumType,
    FloatType,
    IntegerType,
    MemorySizeType,
    NameOrFactoryType,
    PlaceType,
    PortRangeType,
    StringType,
)
from pystate.common.configuration.queryable_state_options import QueryableStateOptions
from pystate.common.configuration.rocksdb_metric_options import RocksDBNativeMetricOptions
from pystate.common.configuration.rocksdb_options import RocksDBOptions
from pystate.common.configuration.security_options import SecurityOptions
from pystate.common.configuration.service_options import ClientOptions, RestOptions, WebOptions
from pystate.common.configuration.sink_options import SinkOptions

SPARK_PREFIX = "spark."
"""Keys that begin so are handed to Spark as they are."""

MAX_FRAME_BYTES = 10 << 20
"""The largest state that may travel in a message to the driver: Flink's frame size (`akka.framesize`)."""

STATE_BACKEND_NAMES = ("hashmap", "rocksdb")
"""The state backends that come with pystate."""

OLD_STATE_BACKEND_NAMES = ("memory", "jobmanager", "filesystem")
"""Flink's names up to 1.12, each for a state backend with a checkpoint storage; see `StateSettings`."""


class CheckpointingMode(str, Enum):
    """The consistency that a checkpoint promises."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class ExternalizedCheckpointRetention(str, Enum):
    """What becomes of a job's last checkpoints when it is cancelled."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Its name up to Flink 1.20."""


class RecoveryClaimMode(str, Enum):
    """Whose the snapshot is that a job is started from."""

    NO_CLAIM = "NO_CLAIM"
    CLAIM = "CLAIM"
    LEGACY = "LEGACY"


class RestartStrategyType(str, Enum):
    """How a failed job is restarted."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class CheckpointStorageType(str, Enum):
    """Where the state of checkpoints goes."""

    JOBMANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class CheckpointingOptions:
    """When checkpoints are taken, where they go, and which are kept."""

    CHECKPOINTING_INTERVAL = ConfigOption[int | None](
        "execution.checkpointing.interval",
        DurationType(minimum=10),
        None,
        "Time from the start of one periodic checkpoint to the start of the next. Checkpointing is off where it is not set.",
    )
    EVERY_EPOCH = ConfigOption[bool](
        "execution.checkpointing.every-epoch",
        BooleanType(),
        False,
        "pystate's own: every epoch carries a barrier, and none begins before the checkpoint of the one before is complete."
        " After a failure the epoch that was running is run again with the same rows under its number, so that a sink which"
        " tells batches apart by number stays exactly-once. In the place of an interval.",
    )
    CHECKPOINT_STORAGE = ConfigOption[CheckpointStorageType | None](
        "execution.checkpointing.storage",
        EnumType(CheckpointStorageType),
        None,
        "filesystem writes the state of checkpoints to files below execution.checkpointing.dir. jobmanager keeps it in the"
        " memory of the job's driver, for small state and for trying things out: such checkpoints survive a failure of the"
        " job, not one of the driver, unless execution.checkpointing.dir is set and they are written there too, in their"
        " _metadata. Where it is not set, it is filesystem with an execution.checkpointing.dir and jobmanager without one."
        " Savepoints always go to files.",
        ("state.checkpoint-storage",),
    )
    CHECKPOINTS_DIRECTORY = ConfigOption[str | None](
        "execution.checkpointing.dir",
        PlaceType("a folder or a URL"),
        None,
        "Checkpoints are written to <dir>/<job id>/chk-<n>.",
        ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    )
    SAVEPOINT_DIRECTORY = ConfigOption[str | None](
        "execution.checkpointing.savepoint-dir",
        PlaceType("a folder or a URL"),
        None,
        "Savepoints are written to <savepoint-dir>/savepoint-<first 6 of job id>-<12 hex digits>, unless the command names"
        " another folder.",
        ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    )
    EXTERNALIZED_CHECKPOINT_RETENTION = ConfigOption[ExternalizedCheckpointRetention](
        "execution.checkpointing.externalized-checkpoint-retention",
        EnumType(ExternalizedCheckpointRetention),
        ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        "What becomes of the last checkpoints when the job is cancelled; NO_EXTERNALIZED_CHECKPOINTS deletes them when it"
        " fails, too. A job that finishes leaves no checkpoint.",
    )
    MAX_RETAINED_CHECKPOINTS = ConfigOption[int](
        "execution.checkpointing.num-retained",
        IntegerType(minimum=1),
        1,
        "How many completed checkpoints are kept.",
        ("state.checkpoints.num-retained",),
    )
    FS_SMALL_FILE_THRESHOLD = ConfigOption[int](
        "execution.checkpointing.data-inline-threshold",
        MemorySizeType(maximum=1 << 20),
        20 << 10,
        "State of a subtask up to this size is put into the checkpoint's _metadata file instead of a file of its own.",
        ("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
    )
    CHECKPOINTING_TIMEOUT = ConfigOption[int](
        "execution.checkpointing.timeout",
        DurationType(minimum=10),
        600_000,
        "A checkpoint that takes longer is given up. The time counts from where its barrier can stand: the end of the epoch"
        " that runs when it is triggered.",
    )
    MIN_PAUSE_BETWEEN_CHECKPOINTS = ConfigOption[int](
        "execution.checkpointing.min-pause",
        DurationType(),
        0,
        "Least time between the end of one checkpoint and the start of the next periodic one. More than 0 means that there"
        " is one checkpoint at a time.",
    )
    MAX_CONCURRENT_CHECKPOINTS = ConfigOption[int](
        "execution.checkpointing.max-concurrent-checkpoints",
        IntegerType(minimum=1),
        1,
        "How many checkpoints may be under way at once.",
    )
    TOLERABLE_FAILURE_NUMBER = ConfigOption[int](
        "execution.checkpointing.tolerable-failed-checkpoints",
        IntegerType(minimum=0),
        0,
        "How many checkpoints in a row may fail before the job fails over.",
    )
    CHECKPOINTING_CONSISTENCY_MODE = ConfigOption[CheckpointingMode](
        "execution.checkpointing.mode",
        EnumType(CheckpointingMode),
        CheckpointingMode.EXACTLY_ONCE,
        "The consistency of checkpoints. On the real-time engine, AT_LEAST_ONCE lets nothing wait while barriers align,"
        " and after a failure some records count twice. On the micro-batch engine a barrier stands at the end of a"
        " micro-batch, where waiting for the other inputs costs nothing, so AT_LEAST_ONCE gives exactly-once as well.",
    )
    ENABLE_UNALIGNED = ConfigOption[bool](
        "execution.checkpointing.unaligned.enabled",
        BooleanType(),
        False,
        "On the real-time engine, barriers of checkpoints overtake records in flight, which become part of the checkpoint:"
        " it takes no longer where tasks are behind, and can be restored only at the same parallelism. Savepoints stay"
        " aligned. Needs EXACTLY_ONCE. On the micro-batch engine there are no records in flight to be overtaken.",
        ("execution.checkpointing.unaligned",),
    )
    ALIGNED_CHECKPOINT_TIMEOUT = ConfigOption[int](
        "execution.checkpointing.aligned-checkpoint-timeout",
        DurationType(),
        0,
        "How long barriers wait before they overtake, from the checkpoint's trigger on; 0: not at all. Only with unaligned"
        " checkpoints.",
        ("execution.checkpointing.alignment-timeout",),
    )
    CREATE_CHECKPOINT_SUB_DIR = ConfigOption[bool](
        "execution.checkpointing.create-subdir",
        BooleanType(),
        True,
        "Put a folder named after the job id between the checkpoint directory and chk-<n>.",
        ("state.checkpoints.create-subdir",),
    )
    SNAPSHOT_COMPRESSION = ConfigOption[bool](
        "execution.checkpointing.snapshot-compression",
        BooleanType(),
        False,
        "Compress the state in checkpoints and savepoints, block by block, with LZ4. The files of incremental checkpoints"
        " are RocksDB's, which compresses them itself. Both kinds are read whatever is set.",
    )
    INCREMENTAL_CHECKPOINTS = ConfigOption[bool](
        "execution.checkpointing.incremental",
        BooleanType(),
        False,
        "Checkpoints write only what has changed since the last one, for state backends that can do so: rocksdb. Files that"
        " several checkpoints refer to are in <dir>/<job id>/shared. Where it has no effect (hashmap, checkpoints in the"
        " driver's memory), the job says so at its start. Savepoints always hold all state.",
        ("state.backend.incremental",),
    )
    LOCAL_RECOVERY = ConfigOption[bool](
        "execution.checkpointing.local-backup.enabled",
        BooleanType(),
        False,
        "Keep a second copy of the last checkpoint's state on each slot's machine, and restore from it where it is at hand"
        " and undamaged.",
        ("state.backend.local-recovery",),
    )
    LOCAL_RECOVERY_DIRS = ConfigOption[str | None](
        "execution.checkpointing.local-backup.dirs",
        PlaceType("folders, separated by commas"),
        None,
        "Where those copies go: folders on local disks of every machine, over which subtasks are spread. Where it is not"
        " set, the folder for temporary files. On the disk of that folder a copy of rocksdb's files takes no space of its"
        " own.",
        ("taskmanager.state.local.root-dirs",),
    )


class StateBackendOptions:
    """Where keyed state lives while the job runs."""

    STATE_BACKEND = ConfigOption[str](
        "state.backend.type",
        NameOrFactoryType(STATE_BACKEND_NAMES, OLD_STATE_BACKEND_NAMES),
        "hashmap",
        "hashmap keeps state as Python objects in the memory of the slots, rocksdb on their local disks, so that it can be"
        " larger than memory. A path names a subclass of pystate's KeyedStateBackend, or a function that takes the same"
        " arguments and returns one. Flink's old names are accepted: memory (also jobmanager) is hashmap with"
        " execution.checkpointing.storage = jobmanager, filesystem is hashmap with filesystem.",
        ("state.backend",),
    )
    ASYNC_SNAPSHOTS = ConfigOption[bool](
        "state.backend.async",
        BooleanType(),
        True,
        "Write snapshots while the next epochs run. Where it is false, an epoch waits until the snapshot before it is"
        " written; rocksdb can't do that.",
    )


class StateRecoveryOptions:
    """What a job starts from."""

    SAVEPOINT_PATH = ConfigOption[str | None](
        "execution.state-recovery.path",
        PlaceType("the path of a savepoint or checkpoint"),
        None,
        "Start from this savepoint or retained checkpoint; run -s sets it.",
        ("execution.savepoint.path",),
    )
    SAVEPOINT_IGNORE_UNCLAIMED_STATE = ConfigOption[bool](
        "execution.state-recovery.ignore-unclaimed-state",
        BooleanType(),
        False,
        "Allow state in the savepoint that no operator of the job claims; it is left out.",
        ("execution.savepoint.ignore-unclaimed-state",),
    )
    RESTORE_MODE = ConfigOption[RecoveryClaimMode](
        "execution.state-recovery.claim-mode",
        EnumType(RecoveryClaimMode),
        RecoveryClaimMode.NO_CLAIM,
        "Whose the snapshot is that the job starts from; run --claimMode sets it. NO_CLAIM: it is never deleted, and no"
        " checkpoint refers to its files. CLAIM: it is the job's, which deletes it when it has newer checkpoints."
        " LEGACY (deprecated): it is never deleted, and incremental checkpoints go on with its files.",
        ("execution.savepoint-restore-mode",),
    )


class RestartStrategyOptions:
    """What happens when a job fails."""

    RESTART_STRATEGY = ConfigOption[RestartStrategyType | None](
        "restart-strategy.type",
        EnumType(
            RestartStrategyType,
            {
                "off": "none",
                "disable": "none",
                "fixeddelay": "fixed-delay",
                "failurerate": "failure-rate",
                "exponentialdelay": "exponential-delay",
            },
        ),
        None,
        "none (also off, disable) never restarts, fixed-delay restarts a number of times, failure-rate as long as failures"
        " are rare, exponential-delay after longer and longer delays. Where it is not set, a job with checkpointing gets"
        " exponential-delay, and one without is not restarted.",
        ("restart-strategy",),
    )
    RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS = ConfigOption[int](
        "restart-strategy.fixed-delay.attempts",
        IntegerType(minimum=0),
        1,
        "How often fixed-delay restarts the job before it fails for good.",
    )
    RESTART_STRATEGY_FIXED_DELAY_DELAY = ConfigOption[int](
        "restart-strategy.fixed-delay.delay",
        DurationType(),
        1_000,
        "How long fixed-delay waits before it restarts the job.",
    )
    RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = ConfigOption[int](
        "restart-strategy.failure-rate.max-failures-per-interval",
        IntegerType(minimum=1),
        1,
        "How many restarts failure-rate allows in an interval before the job fails for good.",
    )
    RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL = ConfigOption[int](
        "restart-strategy.failure-rate.failure-rate-interval",
        DurationType(),
        60_000,
        "The interval in which failure-rate counts failures.",
    )
    RESTART_STRATEGY_FAILURE_RATE_DELAY = ConfigOption[int](
        "restart-strategy.failure-rate.delay",
        DurationType(),
        1_000,
        "How long failure-rate waits before it restarts the job.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF = ConfigOption[int](
        "restart-strategy.exponential-delay.initial-backoff",
        DurationType(),
        1_000,
        "How long exponential-delay waits before the first restart.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF = ConfigOption[int](
        "restart-strategy.exponential-delay.max-backoff",
        DurationType(),
        60_000,
        "The longest that exponential-delay waits before a restart.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = ConfigOption[float](
        "restart-strategy.exponential-delay.backoff-multiplier",
        FloatType(1, above=True),
        1.5,
        "How many times longer exponential-delay waits after each failure.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = ConfigOption[int](
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DurationType(),
        3_600_000,
        "How long a job must run without a failure for exponential-delay to begin anew with the initial backoff.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_JITTER_FACTOR = ConfigOption[float](
        "restart-strategy.exponential-delay.jitter-factor",
        FloatType(0, 1),
        0.1,
        "The share of its backoff by which exponential-delay varies it at random, so that many jobs don't restart at once.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS = ConfigOption[int](
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        IntegerType(minimum=1),
        2**31 - 1,
        "How often exponential-delay restarts the job before it fails for good, unless the backoff was reset in between.",
    )


class CoreOptions:
    """Parallelism."""

    DEFAULT_PARALLELISM = ConfigOption[int](
        "parallelism.default",
        IntegerType(minimum=1, maximum=1 << 15),
        1,
        "The number of subtasks of each operator; run -p sets it.",
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
        "About what the tumbling and sliding windows of a subtask that reduce or aggregate by event time may take of memory"
        " from one epoch to the next before they are written to the state backend: most windows end before that. Snapshots"
        " have them written. 0 to write them when an epoch ends.",
    )
    OUTPUT_MEMORY_SIZE = ConfigOption[int](
        "pystate.output.memory-size",
        MemorySizeType(),
        64 << 20,
        "What a subtask keeps of an epoch's output in memory, for a repeat of the epoch; the rest goes to a file.",
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
        "How many of the records at which functions have failed are kept in the job's folder, the latest ones, each with its"
        " key's state, for pystate debug JOB. They hold the job's data. 0 keeps none.",
    )
    FAILING_RECORD_SIZE = ConfigOption[int](
        "pystate.debug.failing-record-size",
        MemorySizeType(minimum=1 << 10),
        1 << 20,
        "The most that is kept of one such record: of the epoch's rows of its key as many, the last ones, and of its state"
        " all or nothing.",
    )
    SOURCE_ALLOW_NON_REPLAYABLE = ConfigOption[str | None](
        "pystate.source.allow-non-replayable",
        StringType('names with commas between them: of a source, its uid, or what can\'t be read again, such as "socket"'),
        None,
        "Sources that a job may read though they don't give again what they gave: a job is refused that reads any other."
        " What such a source gave after the latest checkpoint is lost with a failure, and so it is told as at-most-once at"
        " each start.",
    )


OPTION_GROUPS: tuple[type, ...] = (
    StateBackendOptions,
    RocksDBOptions,
    RocksDBNativeMetricOptions,
    CheckpointingOptions,
    StateRecoveryOptions,
    RestartStrategyOptions,
    CoreOptions,
    PipelineOptions,
    DeploymentOptions,
    PythonOptions,
    ExecutionOptions,
    SinkOptions,
    QueryableStateOptions,
    ClientOptions,
    RestOptions,
    SecurityOptions,
    WebOptions,
    PrometheusReporterOptions,
    JobManagerOptions,
    HeartbeatManagerOptions,
    HighAvailabilityOptions,
    FileSystemOptions,
    StorageOptions,
    S3Options,
    HdfsOptions,
    SparkOptions,
    PystateOptions,
)
"""The groups in the order of `conf/flink-conf.toml`."""


ALL_OPTIONS: dict[str, ConfigOption[Any]] = {option.key: option for group in OPTION_GROUPS for option in options_of(group)}
"""Key -> option; older names, and the options of connectors, are not in it."""

_FALLBACKS: dict[str, str] = {old: option.key for option in ALL_OPTIONS.values() for old in option.fallback_keys}


def canonical_key(key: str) -> str:
    """Return today's name of a key; the key itself where it isn't an older name."""
    return _FALLBACKS.get(key, key)


def option_of(key: str) -> ConfigOption[Any] | None:
    """Return the option of a key, pystate's or a connector's; None for older names, Spark's and other keys.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    if key.startswith(SPARK_PREFIX) or key in _FALLBACKS:
        return ALL_OPTIONS.get(key)
    return ALL_OPTIONS.get(key) or connector_options().get(key)


def every_option() -> dict[str, ConfigOption[Any]]:
    """Return all options by key, those of connectors last.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    return {**ALL_OPTIONS, **connector_options()}


def is_known(key: str) -> bool:
    """Return whether the key is an option, an older name of one, or Spark's.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    if key in ALL_OPTIONS or key in _FALLBACKS or (key.startswith(SPARK_PREFIX) and len(key) > len(SPARK_PREFIX)):
        return True
    return key in connector_options()


def nearest_key(key: str) -> str | None:
    """Return the known key that looks most like `key`; None where none is near."""
    wanted = key.lower().replace("_", "-")
    candidates = [*every_option(), *_FALLBACKS]
    found = difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.6)
    if found:
        return canonical_key(found[0])
    last = wanted.rpartition(".")[2]
    same_end = [candidate for candidate in ALL_OPTIONS if candidate.rpartition(".")[2] == last]
    return same_end[0] if len(same_end) == 1 else None
