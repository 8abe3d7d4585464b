"""The options of checkpoints and of what a job starts from, in groups with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import (
    BooleanType,
    DurationType,
    EnumType,
    IntegerType,
    MemorySizeType,
    PlaceType,
)

MAX_FRAME_BYTES = 10 << 20
"""The largest state that may travel in a message to the driver: Flink's frame size (`akka.framesize`)."""


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
