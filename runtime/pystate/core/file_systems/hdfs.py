"""HDFS: through Hadoop's libhdfs if it is found, else through WebHDFS."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from pystate.common.configuration.file_system_settings import HdfsSettings
from pystate.common.configuration.groups.file_system_options import HdfsClient, HdfsOptions, KerberosOptions
from pystate.common.configuration.hadoop_files import CONF_DIR_VARIABLE, hadoop_properties
from pystate.common.distribution import pip_install
from pystate.common.errors import ConfigurationError, SnapshotError, StorageError

WEBHDFS_PORT = 9870
"""The default port of WebHDFS in Hadoop 3."""

_lock = threading.Lock()
_made: dict[tuple[int, str, HdfsSettings], Any] = {}


def hdfs_file_system(authority: str, settings: HdfsSettings) -> Any:
    """Return the filesystem of a cluster. It doesn't connect yet; failures show at the first use.

    Args:
        authority: `host:port` of the name node, `host`, or the name of a name service.
        settings: How it is reached.

    Raises:
        SnapshotError: There is neither libhdfs nor WebHDFS; both are named. Or Kerberos lacks its keytab or its library.
    """
    key = (os.getpid(), authority, settings)  # a forked process makes its own connections
    with _lock:
        if key not in _made:
            _made[key] = _make(authority, settings)
        return _made[key]


def _make(authority: str, settings: HdfsSettings) -> Any:
    why_not_libhdfs = f"not tried ({HdfsOptions.CLIENT.key} = webhdfs)"
    if settings.client is HdfsClient.AUTO and settings.kerberos.keytab is not None:
        why_not_libhdfs = f"not tried (it can't use {KerberosOptions.KEYTAB.key})"
    elif settings.client is not HdfsClient.WEBHDFS:
        try:
            return _libhdfs(authority, settings)
        except (OSError, ImportError) as error:
            why_not_libhdfs = str(error).strip().split("\n", 1)[0].rstrip(".")  # the rest lists all places it looked at
    if settings.client is HdfsClient.LIBHDFS:
        message = f"HDFS can't be reached through libhdfs: {why_not_libhdfs}."
        raise StorageError(message, hint=f"{HdfsOptions.CLIENT.key} = auto tries WebHDFS, too")
    try:
        from pystate.core.file_systems.kerberos import KerberosLogin
        from pystate.core.file_systems.webhdfs import WebHdfsFileSystem
    except ImportError as error:
        message = f"There is no way to HDFS. libhdfs: {why_not_libhdfs}. WebHDFS: a package isn't installed: {error}."
        raise SnapshotError(message, hint=pip_install("hdfs")) from error
    login = KerberosLogin(settings.kerberos)
    login.check_keytab()
    asked = _hadoop_property(settings, "core-site.xml", "hadoop.security.authentication") or "simple"
    requires_kerberos = asked.lower() == "kerberos"
    if requires_kerberos:
        login.check()
    return WebHdfsFileSystem(
        addresses=_webhdfs_addresses(authority, settings),
        user=os.environ.get("HADOOP_USER_NAME"),
        login=login,
        requires_kerberos=requires_kerberos,
        timeout_s=settings.timeout_s,
        max_retries=settings.max_retries,
        why_not_libhdfs=why_not_libhdfs,
    )


def _libhdfs(authority: str, settings: HdfsSettings) -> Any:
    """Return the filesystem over libhdfs.

    Raises:
        OSError: libhdfs, Java or Hadoop's classes aren't found.
    """
    from pystate.core.file_systems.libhdfs import LibHdfsFileSystem

    _set_class_path(settings)
    host, _, port = authority.partition(":")
    return LibHdfsFileSystem(host or "default", int(port or 0), os.environ.get("HADOOP_USER_NAME"))


def _set_class_path(settings: HdfsSettings) -> None:
    """Set the class path of the JVM that libhdfs starts: without Hadoop's classes and settings it may exit the process."""
    class_path = os.environ.get("CLASSPATH")
    if class_path:
        if settings.conf_dir is not None and settings.conf_dir not in class_path.split(os.pathsep):
            os.environ["CLASSPATH"] = os.pathsep.join([settings.conf_dir, class_path])
        return
    command = shutil.which("hadoop")
    home = os.environ.get("HADOOP_HOME")
    if home is not None and os.access(f"{home}/bin/hadoop", os.X_OK):
        command = f"{home}/bin/hadoop"
    if command is None:
        message = "neither CLASSPATH nor HADOOP_HOME is set, and there is no command hadoop"
        raise OSError(message)
    environment = dict(os.environ)
    if settings.conf_dir is not None:
        environment[CONF_DIR_VARIABLE] = settings.conf_dir
    try:
        done = subprocess.run(  # noqa: S603 - Hadoop's own command
            [command, "classpath", "--glob"], capture_output=True, text=True, check=True, env=environment, timeout=60
        )
    except subprocess.SubprocessError as error:
        message = f"{command} classpath --glob failed: {error}"
        raise OSError(message) from error
    os.environ["CLASSPATH"] = done.stdout.strip()


def default_authority(settings: HdfsSettings) -> str:
    """Return the name node of `hdfs:///path`: that of `fs.defaultFS`; empty if only WebHDFS's address is known.

    Raises:
        SnapshotError: Nothing says which.
    """
    found = _hadoop_property(settings, "core-site.xml", "fs.defaultFS") or ""
    if found.startswith("hdfs://"):
        return found.removeprefix("hdfs://").partition("/")[0]
    if settings.webhdfs_addresses:
        return ""
    folder = _conf_dir(settings)
    where = f"{CONF_DIR_VARIABLE} and {HdfsOptions.HADOOP_CONF_DIR.key} are not set"
    if folder is not None:
        where = f"{folder / 'core-site.xml'} has no fs.defaultFS of HDFS"
    message = f"hdfs:/// names no name node, and {where}."
    raise SnapshotError(
        message, hint=f"write hdfs://host:port/path, or set {CONF_DIR_VARIABLE} or {HdfsOptions.WEBHDFS_ADDRESS.key}"
    )


def _webhdfs_addresses(authority: str, settings: HdfsSettings) -> tuple[str, ...]:
    if settings.webhdfs_addresses:
        return settings.webhdfs_addresses
    service = authority.partition(":")[0]
    name_nodes = _hadoop_property(settings, "hdfs-site.xml", f"dfs.ha.namenodes.{service}") or ""
    found = [
        _hadoop_property(settings, "hdfs-site.xml", f"dfs.namenode.http-address.{service}.{node.strip()}")
        for node in name_nodes.split(",")
        if node.strip()
    ]
    if found:
        return tuple(address for address in found if address)
    one = _hadoop_property(settings, "hdfs-site.xml", "dfs.namenode.http-address")
    default = _hadoop_property(settings, "core-site.xml", "fs.defaultFS") or ""
    if one is not None and default.removeprefix("hdfs://").partition("/")[0].partition(":")[0] == service:
        host, _, port = one.partition(":")
        return (f"{service if host in ('', '0.0.0.0') else host}:{port or WEBHDFS_PORT}",)  # noqa: S104 - as Hadoop writes it
    return (f"{service}:{WEBHDFS_PORT}",)


def _conf_dir(settings: HdfsSettings) -> Path | None:
    folder = settings.conf_dir or os.environ.get(CONF_DIR_VARIABLE)
    return Path(folder) if folder else None


def _hadoop_property(settings: HdfsSettings, file: str, name: str) -> str | None:
    """Return a setting of Hadoop's; None if it isn't set.

    Raises:
        SnapshotError: The file can't be read.
    """
    folder = _conf_dir(settings)
    if folder is None:
        return None
    try:
        return hadoop_properties(folder / file).get(name)
    except ConfigurationError as error:
        raise SnapshotError(error.message, where=error.where) from error
