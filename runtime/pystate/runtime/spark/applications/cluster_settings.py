"""Spark settings of a cluster: the driver's address, archives, the executors' Python."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.deployment_options import ExecutionTarget, PythonOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.runtime.spark.applications.kubernetes import kubernetes_settings
from pystate.runtime.spark.applications.kubernetes_pods import KUBERNETES
from pystate.runtime.spark.applications.yarn_resource_manager import YARN, yarn_addresses, yarn_conf_dirs
from pystate.runtime.spark.workers.python_daemons import SOCKET_FOLDER
from pystate.runtime.spark.workers.python_files import paths_of

_ELSEWHERE = ("192.0.2.1", 9)
"""An address that doesn't exist: its route is the default route."""
_SHORT_FOLDER = "/tmp"  # noqa: S108 - of each executor's machine, as Spark takes it on other clusters; sockets are their owner's
_FAILURES_OF_YARN = ("spark.executor.failuresValidityInterval", "spark.yarn.am.attemptFailuresValidityInterval")
_FORGOTTEN_AFTER = "1h"
"""By itself Spark counts lost executors and application masters for ever, and a job that runs for months ends with a few."""
_CONNECT_S = 5.0
_RETRY_S = 0.5


def cluster_settings(
    configuration: Configuration, master: str, users: Mapping[str, str], patience_s: float
) -> dict[str, str]:
    """Return the settings of a session on a cluster, which the user's own override.

    Args:
        configuration: The options in force.
        master: Spark's master.
        users: The user's Spark settings.
        patience_s: How long a standalone master may take to answer.

    Raises:
        ConfigurationError: The master's host is unknown, an archive doesn't exist, or Kubernetes lacks a setting.
        ExternalSystemError: The master doesn't answer.
    """
    settings = archive_settings(configuration, master, users)
    if master == YARN:
        # below a container's own folder for temporary files a socket's path would be longer than the system takes
        settings[SOCKET_FOLDER] = _SHORT_FOLDER
        settings.update(dict.fromkeys(_FAILURES_OF_YARN, _FORGOTTEN_AFTER))
    if master.startswith(KUBERNETES):
        settings.update(kubernetes_settings(master, users))
    if "spark.driver.host" not in users and "SPARK_LOCAL_IP" not in os.environ:
        address = address_towards(master, patience_s, configuration)
        if address is not None:
            # Spark's own guess is the host's name, which on a machine with several networks may be an address of any of them
            settings["spark.driver.host"] = address
    return settings


def archive_settings(configuration: Configuration, master: str, users: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that makes Spark unpack the archives of `python.archives`.

    Raises:
        ConfigurationError: An archive doesn't exist.
    """
    text = configuration.get(PythonOptions.PYTHON_ARCHIVES)
    if text is None:
        return {}
    words = []
    for word in text.split(","):
        archive, hash_sign, name = word.strip().partition("#")
        words += [f"{path}{hash_sign}{name}" for path in paths_of(PythonOptions.PYTHON_ARCHIVES.key, archive)]
    key = "spark.yarn.dist.archives" if master == YARN else "spark.archives"
    if key in users:
        message = f"{PythonOptions.PYTHON_ARCHIVES.key} and {key} are set both, and one would replace the other."
        raise ConfigurationError(message, where=key, hint=f"put all archives into {PythonOptions.PYTHON_ARCHIVES.key}")
    return {key: ",".join(words)}


def worker_python(configuration: Configuration, target: ExecutionTarget, users: Mapping[str, str]) -> str:
    """Return the Python of Spark's workers.

    Raises:
        ConfigurationError: On this machine there is no such Python.
    """
    key = PythonOptions.PYTHON_EXECUTABLE.key
    chosen = configuration.get(PythonOptions.PYTHON_EXECUTABLE) or users.get("spark.pyspark.python")
    if target is ExecutionTarget.SPARK:
        return chosen or os.environ.get("PYSPARK_PYTHON") or sys.executable
    if chosen is not None and shutil.which(chosen) is None:
        message = f"There is no Python at {chosen}."
        raise ConfigurationError(
            message, where=key, hint=f"leave {key} out; a job without a cluster runs in {sys.executable}"
        )
    return chosen or sys.executable


def address_towards(master: str, patience_s: float, configuration: Configuration | None = None) -> str | None:
    """Return the address of this machine as seen by a cluster; None if no route to it is known.

    Args:
        master: Spark's master.
        patience_s: How long a standalone master may take to answer.
        configuration: The options in force, which may say where Hadoop's settings are.

    Raises:
        ConfigurationError: The master's host is unknown.
        ExternalSystemError: The master doesn't answer.
    """
    if master.startswith("spark://"):
        return _address_at_masters(master, patience_s)
    if master == YARN:
        found = (_own_address(peer) for peer in yarn_addresses(yarn_conf_dirs(configuration)).clients)
        return next((address for address in found if address is not None), None)
    if master.startswith(KUBERNETES):
        url = urlsplit(re.sub(r"^k8s://(?!https?://)", "k8s://https://", master)[len(KUBERNETES) :])
        return _own_address((url.hostname or "", url.port or 443))
    return _own_address(_ELSEWHERE)


def _own_address(peer: tuple[str, int]) -> str | None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(peer)  # sends nothing: a datagram socket only looks up the route
        return str(probe.getsockname()[0])
    return None


def _address_at_masters(master: str, patience_s: float) -> str:
    """Connect to one of the masters in `spark://host:port,host:port` and return the local address."""
    peers = [word.rpartition(":") for word in master[len("spark://") :].split(",")]
    deadline = time.monotonic() + patience_s
    while True:
        for host, _, port in peers:
            if not host or not port.isdigit():
                message = f"{master!r} is not the address of a Spark master."
                raise ConfigurationError(message, where=SparkOptions.MASTER.key, hint="spark://HOST:PORT; 7077 is usual")
            try:
                with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
                    return str(connection.getsockname()[0])
            except socket.gaierror as error:
                failure: OSError = error
                if len(peers) == 1:
                    message = f"Nobody knows the host {host}: {error.strerror}."
                    raise ExternalSystemError(message, where=SparkOptions.MASTER.key) from error
            except OSError as error:
                failure = error
        if time.monotonic() >= deadline:
            message = f"No Spark master answers at {master}: {failure.strerror or failure}."
            raise ExternalSystemError(
                message, where=SparkOptions.MASTER.key, hint="start it, or look for a firewall in between"
            )
        time.sleep(_RETRY_S)
