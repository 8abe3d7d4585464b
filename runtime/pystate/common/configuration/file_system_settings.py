"""The effective filesystem settings of this process.

A location is a text everywhere: in a message to a slot, in a savepoint's metadata, in a command. So the settings for
resolving it to a filesystem belong to the process, as in Flink: after reading a configuration, call `initialize` with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.file_system_options import (
    FileSystemOptions,
    HdfsClient,
    HdfsOptions,
    KerberosOptions,
    S3Options,
    StorageOptions,
)
from pystate.common.errors import ConfigurationError

SETTINGS_VARIABLE = "PYSTATE_FILE_SYSTEM_SETTINGS"
"""Gives the settings to a process that is started: the job manager."""


@dataclass(frozen=True)
class S3Settings:
    """The settings of S3; None for values that are taken from the AWS defaults.

    Attributes:
        access_key: The access key id.
        secret_key: Its secret.
        session_token: What goes with a temporary key.
        endpoint: URL of the service.
        region: The bucket's region.
        path_style_access: Whether the bucket always stands in the path.
        part_size: Bytes of one part of an upload.
        max_retries: How often a request is repeated.
        connection_timeout_s: Bound for connecting.
        socket_timeout_s: Bound for silence.
    """

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str | None = None
    path_style_access: bool = S3Options.PATH_STYLE_ACCESS.default
    part_size: int = S3Options.PART_UPLOAD_MIN_SIZE.default
    max_retries: int = S3Options.MAX_RETRIES.default
    connection_timeout_s: float = S3Options.CONNECTION_TIMEOUT.default / 1000
    socket_timeout_s: float = S3Options.SOCKET_TIMEOUT.default / 1000


@dataclass(frozen=True)
class KerberosSettings:
    """The settings of the log-in to Kerberos.

    Attributes:
        keytab: The path of the keytab; None for none.
        principal: Who one is; None for who the ticket cache says. A keytab comes with one.
        use_ticket_cache: Whether a ticket of kinit counts where there is no keytab.
    """

    keytab: str | None = None
    principal: str | None = None
    use_ticket_cache: bool = KerberosOptions.USE_TICKET_CACHE.default

    @staticmethod
    def of(configuration: Configuration) -> KerberosSettings:
        """Read the settings.

        Raises:
            ConfigurationError: There is a keytab without a principal.
        """
        get = configuration.get
        keytab, principal = get(KerberosOptions.KEYTAB) or None, get(KerberosOptions.PRINCIPAL) or None
        if keytab is not None and principal is None:
            message = f"{KerberosOptions.KEYTAB.key} is set without {KerberosOptions.PRINCIPAL.key}."
            raise ConfigurationError(message, where=keytab, hint=f"klist -k {keytab} shows whose keys it has")
        return KerberosSettings(keytab, principal, get(KerberosOptions.USE_TICKET_CACHE))


@dataclass(frozen=True)
class HdfsSettings:
    """The settings of HDFS.

    Attributes:
        conf_dir: The folder with Hadoop's own settings; None for that of the environment.
        client: Which client is used.
        webhdfs_addresses: Where WebHDFS is served; empty for what Hadoop's settings say.
        timeout_s: Bound for silence.
        max_retries: How often a request is repeated.
        kerberos: How one logs in to a cluster with Kerberos.
    """

    conf_dir: str | None = None
    client: HdfsClient = HdfsClient.AUTO
    webhdfs_addresses: tuple[str, ...] = ()
    timeout_s: float = HdfsOptions.TIMEOUT.default / 1000
    max_retries: int = HdfsOptions.MAX_RETRIES.default
    kerberos: KerberosSettings = field(default_factory=KerberosSettings)


@dataclass(frozen=True)
class FileSystemSettings:
    """The settings for resolving locations to filesystems.

    Attributes:
        default_scheme: Where absolute paths without a scheme lie; None for this machine.
        umask: The bits that the modes of files and folders with state don't have, whatever the umask of the process is.
        s3: For s3://.
        hdfs: For hdfs://.
    """

    default_scheme: str | None = None
    umask: int = StorageOptions.UMASK.default
    s3: S3Settings = field(default_factory=S3Settings)
    hdfs: HdfsSettings = field(default_factory=HdfsSettings)

    @staticmethod
    def of(configuration: Configuration) -> FileSystemSettings:
        """Read the settings.

        Raises:
            ConfigurationError: They don't fit together.
        """
        get = configuration.get
        addresses = (get(HdfsOptions.WEBHDFS_ADDRESS) or "").split(",")
        return FileSystemSettings(
            default_scheme=get(FileSystemOptions.DEFAULT_FILESYSTEM_SCHEME) or None,
            umask=get(StorageOptions.UMASK),
            s3=S3Settings(
                access_key=get(S3Options.ACCESS_KEY) or None,
                secret_key=get(S3Options.SECRET_KEY) or None,
                session_token=get(S3Options.SESSION_TOKEN) or None,
                endpoint=get(S3Options.ENDPOINT) or None,
                region=get(S3Options.REGION) or None,
                path_style_access=get(S3Options.PATH_STYLE_ACCESS),
                part_size=get(S3Options.PART_UPLOAD_MIN_SIZE),
                max_retries=get(S3Options.MAX_RETRIES),
                connection_timeout_s=get(S3Options.CONNECTION_TIMEOUT) / 1000,
                socket_timeout_s=get(S3Options.SOCKET_TIMEOUT) / 1000,
            ),
            hdfs=HdfsSettings(
                conf_dir=get(HdfsOptions.HADOOP_CONF_DIR) or None,
                client=get(HdfsOptions.CLIENT),
                webhdfs_addresses=tuple(address.strip() for address in addresses if address.strip()),
                timeout_s=get(HdfsOptions.TIMEOUT) / 1000,
                max_retries=get(HdfsOptions.MAX_RETRIES),
                kerberos=KerberosSettings.of(configuration),
            ),
        )

    @property
    def file_mode(self) -> int:
        """The mode of files with state."""
        return 0o666 & ~self.umask

    @property
    def folder_mode(self) -> int:
        """The mode of their folders."""
        return 0o777 & ~self.umask

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets, which must never be displayed."""
        found = (self.s3.access_key, self.s3.secret_key, self.s3.session_token)
        return tuple(secret for secret in found if secret)


_DEFAULT = FileSystemSettings()
_in_force: FileSystemSettings | None = None


def initialize(configuration: Configuration) -> None:
    """Make the settings of a configuration effective in this process."""
    put_in_force(FileSystemSettings.of(configuration))


def put_in_force(settings: FileSystemSettings | None) -> None:
    """Make settings effective in this process; None restores the initial ones."""
    global _in_force  # noqa: PLW0603
    _in_force = settings


def current_settings() -> FileSystemSettings:
    """Return the effective settings; before `initialize`, those of the parent process, or the defaults."""
    if _in_force is not None:
        return _in_force
    text = os.environ.get(SETTINGS_VARIABLE)
    return _DEFAULT if text is None else _from_text(text)


def settings_environment() -> dict[str, str]:
    """Return the environment variables that pass the effective settings to a child process.

    The environment of a process can be read by its own user only; its arguments can be read by everybody.
    """
    settings = current_settings()
    return {} if settings == _DEFAULT else {SETTINGS_VARIABLE: json.dumps(asdict(settings))}


def adopt(settings: FileSystemSettings) -> None:
    """Make the settings received with a location effective, unless this process already has its own."""
    if current_settings() == _DEFAULT:
        put_in_force(settings)


def travelling_settings() -> FileSystemSettings | None:
    """Return the settings to send with a location to another process; None if it needs none."""
    settings = current_settings()
    return None if settings == _DEFAULT else settings


def _from_text(text: str) -> FileSystemSettings:
    try:
        plain = json.loads(text)
        s3, hdfs = S3Settings(**plain.pop("s3")), plain.pop("hdfs")
        hdfs["webhdfs_addresses"] = tuple(hdfs["webhdfs_addresses"])
        hdfs["kerberos"] = KerberosSettings(**hdfs["kerberos"])
        known = HdfsSettings(**{**hdfs, "client": HdfsClient(hdfs["client"])})
        return FileSystemSettings(**plain, s3=s3, hdfs=known)
    except (ValueError, KeyError, TypeError, AttributeError):
        message = f"{SETTINGS_VARIABLE} is not what pystate puts there."
        raise ConfigurationError(message, hint=f"unset {SETTINGS_VARIABLE}") from None
