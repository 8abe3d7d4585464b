"""The options of the job manager's memory and of its high availability, in groups with Flink's class and constant names."""

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
    StringType,
)

DEFAULT_CLUSTER_ID = "/default"


class HighAvailabilityMode(str, Enum):
    """Whether another job manager takes over when one is lost."""

    NONE = "NONE"
    FILESYSTEM = "filesystem"


class HeartbeatManagerOptions:
    """When a process that gives no sign of life counts as lost."""

    HEARTBEAT_INTERVAL = ConfigOption[int](
        "heartbeat.interval",
        DurationType(minimum=100),
        10_000,
        "How often the job manager looks whether the drivers of its jobs answer. Set it where the job manager is started.",
    )
    HEARTBEAT_TIMEOUT = ConfigOption[int](
        "heartbeat.timeout",
        DurationType(minimum=100),
        50_000,
        "For how long a driver may give no answer while it is stopped or does nothing, before the job manager kills it and "
        "starts another one. Set it where the job manager is started. Slots and relays have 50 s, whatever this says.",
    )


class JobManagerOptions:
    """What the job manager does beside starting drivers: lists of ended jobs, logs, disks, archives."""

    JOB_STORE_EXPIRATION_TIME = ConfigOption[int](
        "jobstore.expiration-time",
        IntegerType(minimum=0),
        3_600,
        "The seconds for which a job that has ended stays listed. Its logs and its record are deleted then, its checkpoints "
        "and savepoints are not.",
    )
    JOB_STORE_MAX_CAPACITY = ConfigOption[int](
        "jobstore.max-capacity",
        IntegerType(minimum=0),
        2**31 - 1,
        "How many jobs that have ended stay listed; the one that ended first goes first.",
    )
    FLINK_LOG_MAX = ConfigOption[int](
        "env.log.max",
        IntegerType(minimum=1),
        10,
        "How many old pieces are kept of a log. A piece is put aside when it has its part of pystate.log.max-size, which is "
        "100 MB by default.",
    )
    LOG_MAX_SIZE = ConfigOption[int](
        "pystate.log.max-size",
        MemorySizeType(minimum=1 << 20),
        1100 << 20,
        "The bytes that the log of the job manager takes on disk, and those that all logs of one job take together, what an "
        "attached job prints included. The oldest are deleted for new ones.",
    )

    MIN_FREE_DISK = ConfigOption[int](
        "pystate.disk.min-free",
        MemorySizeType(),
        1 << 30,
        "With less than this free on a disk that the job manager or a job's checkpoints are on, pystate list and pystate"
        " doctor warn; 0 for never.",
    )
    CLASS_DATA_ARCHIVE = ConfigOption[bool](
        "pystate.spark.class-data-archive",
        BooleanType(),
        True,
        "Whether drivers start with an archive of Spark's classes, which saves a third of the time to their first epoch. The"
        " job manager makes it a minute after its first job, in the background: about 160 MB in the user's cache folder for"
        " each pair of Java and Spark.",
    )
    SPARE_DRIVERS = ConfigOption[int](
        "jobmanager.spare-drivers",
        IntegerType(minimum=0),
        0,
        "How many drivers are kept warm and without a job, so that jobs like those that ran before start, and restart, in"
        " half the time or less. Each takes 0.6 to 0.9 GB of memory, and after each start of a job, when another one is"
        " made, some 20 seconds of processor time.",
    )
    SPARE_DRIVERS_MIN_FREE_MEMORY = ConfigOption[int](
        "jobmanager.spare-drivers.min-free-memory",
        MemorySizeType(),
        2 << 30,
        "With less memory than this available on the machine, or in the container, no spare driver is started; with less"
        " than half of it those without a job are ended.",
    )


class HighAvailabilityOptions:
    """Several job managers, one of which leads."""

    HA_MODE = ConfigOption[HighAvailabilityMode](
        "high-availability.type",
        EnumType(HighAvailabilityMode),
        HighAvailabilityMode.NONE,
        "Whether another job manager takes over when the leading one is lost: NONE, or filesystem for a lease and a record "
        "of jobs in a folder that all of them reach.",
        ("high-availability", "recovery.mode"),
    )
    HA_STORAGE_PATH = ConfigOption[str | None](
        "high-availability.storageDir",
        PlaceType("a place that all job managers reach"),
        None,
        "Where the lease and the jobs' files are: a folder on a file system with atomic hard links and file modes, such as "
        "a local disk or NFS, or a place on s3:// or hdfs://.",
        ("high-availability.zookeeper.storageDir", "recovery.zookeeper.storageDir"),
    )
    HA_CLUSTER_ID = ConfigOption[str](
        "high-availability.cluster-id",
        StringType("a name"),
        DEFAULT_CLUSTER_ID,
        "Tells the job managers that stand in for each other from those of other clusters in the same folder.",
        ("high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"),
    )
    LEASE_DURATION = ConfigOption[int](
        "high-availability.filesystem.lease-duration",
        DurationType(minimum=10),
        15_000,
        "How long a job manager must have seen no sign of life from the leading one before it takes over.",
    )
    RENEW_DEADLINE = ConfigOption[int](
        "high-availability.filesystem.renew-deadline",
        DurationType(minimum=10),
        10_000,
        "How long the leading job manager acts without having been able to renew its lease; shorter than the lease.",
    )
    RETRY_PERIOD = ConfigOption[int](
        "high-availability.filesystem.retry-period",
        DurationType(minimum=10),
        2_000,
        "How often the lease is renewed, and looked at by the others; shorter than the deadline.",
    )
