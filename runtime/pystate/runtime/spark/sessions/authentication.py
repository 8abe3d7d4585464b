"""Access control of a job's Spark: settings for applications that pystate starts, and notices about others.

Without `spark.authenticate`, Spark's RPC and block manager serve everyone who reaches their ports. They provide broadcasts:
the pickled functions of a job, and Hadoop's settings with the secrets of storages. On a local master, Spark generates a
secret in the memory of its only process: it isn't in any setting, file, command line or message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pystate.common.configuration.execution_target import local_threads
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.runtime.spark.sessions.local_dir import socket_folder
from pystate.runtime.spark.workers.python_daemons import SOCKET_FOLDER, UNIX_SOCKETS_KEY

AUTHENTICATE = "spark.authenticate"
NETWORK_CRYPTO = "spark.network.crypto.enabled"
SASL_FALLBACK = "spark.network.crypto.saslFallback"
"""Whether a peer that doesn't encrypt is spoken with all the same; true in Spark."""
SSL_RPC = "spark.ssl.rpc.enabled"
SECRET = "spark.authenticate.secret"  # noqa: S105 - a key
_HOW = f"set {AUTHENTICATE} = true and the same {SECRET} in flink-conf.toml and in the spark-defaults.conf of the cluster"


def local_settings(users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a local master that keep out other users of the machine; the user's own override them.

    Raises:
        ExternalSystemError: Sockets can't be created, for instance on a full disk.
    """
    settings = {AUTHENTICATE: "true", UNIX_SOCKETS_KEY: "true"}
    # else the daemon forks Python workers for everyone who connects to its port
    if SOCKET_FOLDER not in users and users.get(UNIX_SOCKETS_KEY, "true").lower() == "true":
        try:
            settings[SOCKET_FOLDER] = socket_folder()
        except OSError as error:
            message = f"There is no place for the sockets of Spark's Python workers: {error.strerror}."
            hint = f"set {SOCKET_FOLDER} to a folder of yours with a path of at most 60 characters"
            raise ExternalSystemError(message, where=str(error.filename), hint=hint) from error
    return settings


def authentication_notices(application: Callable[[str], str | None], *, real_time: bool) -> list[str]:
    """Return notices about the access of others to the user's Spark.

    Args:
        application: Returns a setting of the application; None if it isn't set.
        real_time: Whether the job runs on the real-time engine.
    """
    is_local = local_threads(str(application("spark.master"))) is not None
    notices = []
    if not _is_true(application(AUTHENTICATE)):
        if is_local:
            whom, how = "every user of this machine", f"set {AUTHENTICATE} = true where the session is made"
        else:
            whom, how = "whoever reaches its ports", _HOW
        notices.append(
            f"{AUTHENTICATE} is not true: the Spark application answers {whom}, and gives away the job's functions and all "
            f"secrets among Spark's settings; {how}."
        )
    if real_time and not is_local:
        notices.append(
            "Spark's streaming shuffle listens on all addresses of the executors' machines, and asks nobody who he is: "
            "anybody who reaches those ports can read or end the job; use a network of its own, or "
            "execution.engine = micro-batch."
        )
    return notices


def encryption_settings() -> dict[str, str]:
    """Return the settings with which the processes of Spark encrypt what they send each other."""
    return {NETWORK_CRYPTO: "true", SASL_FALLBACK: "false"}


def check_encryption(application: Callable[[str], str | None], *, real_time: bool) -> None:
    """Reject an application that sends records between machines as they are, for `security.ssl.internal.enabled`.

    Args:
        application: Returns a setting of the application; None if it isn't set.
        real_time: Whether the job runs on the real-time engine.

    Raises:
        ConfigurationError: It does.
    """
    if local_threads(str(application("spark.master"))) is not None:
        return
    where = SecurityOptions.SSL_INTERNAL_ENABLED.key
    if real_time:
        message = "Spark's streaming shuffle, which the real-time engine uses, can't be encrypted."
        raise ConfigurationError(message, where=where, hint="execution.engine = micro-batch, or leave the option out")
    if _is_true(application(SSL_RPC)):
        return
    needed = {AUTHENTICATE: "true", **encryption_settings()}
    lacking = [f"{key} = {value}" for key, value in needed.items() if str(application(key)).lower() != value]
    if lacking:
        message = f"This Spark application may send records as they are: it lacks {', '.join(lacking)}."
        hint = f"{_HOW}, with {NETWORK_CRYPTO} = true in both; or {SSL_RPC} = true with its certificates"
        raise ConfigurationError(message, where=where, hint=hint)


def _is_true(value: str | None) -> bool:
    return value is not None and value.lower() == "true"
