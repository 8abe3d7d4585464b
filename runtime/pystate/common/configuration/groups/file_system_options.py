"""The options of the filesystems that checkpoints and savepoints lie on, with Flink's keys where Flink has them."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import (
    BooleanType,
    DurationType,
    EnumType,
    IntegerType,
    MemorySizeType,
    StringType,
    UmaskType,
)

LEAST_PART_SIZE = 5 << 20
"""Bytes: S3 takes no smaller part of an upload but the last one."""


class HdfsClient(str, Enum):
    """How HDFS is reached."""

    AUTO = "auto"
    LIBHDFS = "libhdfs"
    WEBHDFS = "webhdfs"


class FileSystemOptions:
    """Where a path without a scheme lies."""

    DEFAULT_FILESYSTEM_SCHEME = ConfigOption[str | None](
        "fs.default-scheme",
        StringType('a scheme with what follows it, such as "hdfs://host:port" or "s3://bucket"'),
        None,
        "Absolute paths that name no scheme lie there. Where it is not set they are files of this machine, as relative paths"
        " always are; file:/path names a file of this machine whatever is set.",
    )


class StorageOptions:
    """Who may read what is written: state is worth what the job's data is worth."""

    UMASK = ConfigOption[int](
        "pystate.storage.umask",
        UmaskType(),
        0o077,
        "The bits that checkpoints, savepoints and local copies of state don't have in their modes, on this machine's file"
        " systems and on HDFS, whatever the umask of a process is: with 077 only their owner reads them. A cluster whose"
        " executors run as another user than the driver needs 007, a group of both, and a checkpoint directory of that group"
        " with the setgid bit. Folders that are there already keep their modes.",
    )


class S3Options:
    """S3, for places that begin with s3:// (also s3a://, s3n://, s3p://). Needs pip install 'pystate-spark[s3]'.

    What is not set here comes from where the AWS tools look: the environment, ~/.aws, the machine's role.
    """

    ACCESS_KEY = ConfigOption[str | None](
        "s3.access-key",
        StringType("an access key id"),
        None,
        "The access key. Together with s3.secret-key. Shown nowhere.",
        ("s3.access.key", "s3a.access-key", "s3a.access.key", "fs.s3a.access-key", "fs.s3a.access.key"),
    )
    SECRET_KEY = ConfigOption[str | None](
        "s3.secret-key",
        StringType("a secret key"),
        None,
        "The secret of the access key. Shown nowhere.",
        ("s3.secret.key", "s3a.secret-key", "s3a.secret.key", "fs.s3a.secret-key", "fs.s3a.secret.key"),
    )
    SESSION_TOKEN = ConfigOption[str | None](
        "s3.session-token",
        StringType("a session token"),
        None,
        "The token that goes with a temporary access key. Shown nowhere.",
        ("s3.session.token", "s3a.session.token", "fs.s3a.session.token"),
    )
    ENDPOINT = ConfigOption[str | None](
        "s3.endpoint",
        StringType('a URL such as "http://127.0.0.1:9000"'),
        None,
        "Where the S3 service is reached, for services other than Amazon's.",
        ("s3a.endpoint", "fs.s3a.endpoint"),
    )
    REGION = ConfigOption[str | None](
        "s3.region",
        StringType("the name of a region"),
        None,
        "The region of the bucket.",
        ("s3.endpoint.region", "s3a.endpoint.region", "fs.s3a.endpoint.region"),
    )
    PATH_STYLE_ACCESS = ConfigOption[bool](
        "s3.path.style.access",
        BooleanType(),
        False,
        "Put the bucket into the path of requests, never into the host name, as many services other than Amazon's need it.",
        ("s3.path-style-access", "s3a.path.style.access", "fs.s3a.path.style.access"),
    )
    PART_UPLOAD_MIN_SIZE = ConfigOption[int](
        "s3.upload.min.part.size",
        MemorySizeType(minimum=LEAST_PART_SIZE),
        16 << 20,
        "Files above this size are uploaded in parts of it, and each writer holds one part in memory. At least 5 mb. A file"
        " has 10,000 parts at most, so the default is good for files of up to 156 gb.",
    )
    MAX_RETRIES = ConfigOption[int](
        "s3.retry.max-num-retries",
        IntegerType(minimum=0, maximum=100),
        3,
        "How often a request is repeated after an error that may pass: no connection, a timeout, throttling, and the"
        " statuses 500, 502, 503, 504. The pauses grow from one second or less to 20 seconds at most.",
    )
    CONNECTION_TIMEOUT = ConfigOption[int](
        "s3.connection.timeout",
        DurationType(minimum=1),
        10_000,
        "How long a connection to S3 may take to come about.",
    )
    SOCKET_TIMEOUT = ConfigOption[int](
        "s3.socket.timeout",
        DurationType(minimum=1),
        60_000,
        "How long S3 may say nothing before a request counts as failed.",
    )


class HdfsOptions:
    """HDFS, for places that begin with hdfs://. Needs a Hadoop with its libhdfs, or pip install 'pystate-spark[hdfs]'."""

    HADOOP_CONF_DIR = ConfigOption[str | None](
        "env.hadoop.conf.dir",
        StringType("a folder"),
        None,
        "The folder with core-site.xml and hdfs-site.xml. Where it is not set, HADOOP_CONF_DIR of the environment counts.",
        ("fs.hdfs.hadoopconf",),
    )
    CLIENT = ConfigOption[HdfsClient](
        "pystate.hdfs.client",
        EnumType(HdfsClient),
        HdfsClient.AUTO,
        "libhdfs is Hadoop's own client, which runs Java inside of each process; webhdfs is its REST interface. auto takes"
        " libhdfs where it and Hadoop's classes are found, else webhdfs.",
    )
    WEBHDFS_ADDRESS = ConfigOption[str | None](
        "pystate.hdfs.webhdfs-address",
        StringType('"host:port" or "https://host:port"; several, separated by commas, are name nodes of one cluster'),
        None,
        "Where the name node (or HttpFS) serves WebHDFS. Where it is not set, it is dfs.namenode.http-address of"
        " hdfs-site.xml, else port 9870 of the host in the path.",
    )
    TIMEOUT = ConfigOption[int](
        "pystate.hdfs.timeout",
        DurationType(minimum=1),
        60_000,
        "How long WebHDFS may say nothing before a request counts as failed.",
    )
    MAX_RETRIES = ConfigOption[int](
        "pystate.hdfs.max-retries",
        IntegerType(minimum=0, maximum=100),
        3,
        "How often a request to WebHDFS is repeated when no connection comes about, and one that may be repeated also after"
        " a broken connection, a timeout and the statuses 502, 503, 504.",
    )


class KerberosOptions:
    """The log-in to an HDFS with Kerberos, over WebHDFS. Spark logs in by itself: spark.kerberos.keytab and .principal.

    libhdfs takes the ticket of kinit, whatever is set here.
    """

    KEYTAB = ConfigOption[str | None](
        "security.kerberos.login.keytab",
        StringType("the absolute path of a keytab"),
        None,
        "The keytab to log in by, on each machine of a job at this path. Tickets are got from the KDC and renewed with it."
        " Needs security.kerberos.login.principal. pystate.hdfs.client = auto goes over WebHDFS then.",
        ("security.keytab",),
    )
    PRINCIPAL = ConfigOption[str | None](
        "security.kerberos.login.principal",
        StringType('a principal such as "flink@EXAMPLE.ORG"'),
        None,
        "Who one is. Without a keytab it says which of kinit's tickets counts, where there are several.",
        ("security.principal",),
    )
    USE_TICKET_CACHE = ConfigOption[bool](
        "security.kerberos.login.use-ticket-cache",
        BooleanType(),
        True,
        "Whether the ticket of kinit counts where no keytab is set. Jobs that last longer than the ticket need a keytab.",
    )
