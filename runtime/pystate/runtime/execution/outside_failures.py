"""Classifies failures before a job's first attempt that have external causes, so that the same program may start later."""

from __future__ import annotations

import errno
import re
import socket

from pystate.common.errors import ExternalSystemError, JobExecutionError, PystateError
from pystate.common.files.job_files import OF_THE_MACHINE
from pystate.common.text.bounded_text import text_of
from pystate.common.text.java_errors import java_hint
from pystate.common.user_code.user_errors import error_sentence
from pystate.connectors.installed_connectors import spark_formats
from pystate.runtime.job_folder.restart_strategies import is_fatal

_NOT_ANSWERED = (
    r"java\.net\.(?:Connect|UnknownHost|SocketTimeout|NoRouteToHost|Socket|PortUnreachable)Exception"
    r"|java\.util\.concurrent\.TimeoutException"
    r"|org\.apache\.hadoop\.ipc\.\w+Exception|java\.sql\.SQL(?:Transient|NonTransientConnection|Recoverable)\w*Exception"
)
"""The errors of Java if the peer does not answer; connectors have others."""
_OF_NETWORKS = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ESTALE)
_OF_SPARK = ("pyspark.", "py4j.")


def may_pass(error: BaseException, *, begun: bool) -> bool:
    """Return whether the restart strategy is to decide about an exception before the job's first attempt.

    Args:
        error: The exception.
        begun: Whether the program has been a job before: what Spark or the machine refuse now, they have given then.
    """
    if isinstance(error, PystateError):
        return isinstance(error, ExternalSystemError) or (begun and not is_fatal(error))
    if isinstance(error, (ConnectionError, TimeoutError, socket.gaierror)):
        return True
    if isinstance(error, OSError):
        return begun or error.errno in (*OF_THE_MACHINE, *_OF_NETWORKS)
    if type(error).__module__.startswith(_OF_SPARK):
        patterns = (_NOT_ANSWERED, *(pattern for one in spark_formats() for pattern in one.outages))
        return begun or any(re.search(pattern, text_of(error)) for pattern in patterns)
    return False


def as_failure(error: Exception) -> PystateError:
    """Return the failure for an exception, with a hint if its cause is known."""
    if isinstance(error, PystateError):
        return error
    return JobExecutionError(error_sentence(error), hint=java_hint(text_of(error)))
