"""Starts that time out on a busy machine: their error, and how to recognize them."""

from __future__ import annotations

from pystate.common.errors import JobExecutionError, PystateError
from pystate.common.processes.machine_load import busy_sentence

_OF_SPARK = ("Python worker failed to connect back", "Python daemon failed to launch worker")
"""Spark's messages about its own workers, whose timeouts of 10 and 60 s can't be configured."""


class StartTimeoutError(JobExecutionError):
    """Processes of a job did not start in time."""


def late_start(came: str, timeout_s: float, lack: str | None) -> JobExecutionError:
    """Return the error for a start that has timed out.

    Args:
        came: What came.
        timeout_s: How long it might have taken, on a machine that is not busy.
        lack: What the others lack, as Spark says; None if it lets them run.
    """
    if lack is not None:
        return JobExecutionError(f"{came} within {timeout_s:g} s: {lack}.", hint="give Spark more cores")
    busy = busy_sentence()
    message = f"{came} within {timeout_s:g} s{'' if busy is None else ' and the longer time that a busy machine has'}."
    return StartTimeoutError(message, hint=busy or "look at the job's log, or raise pystate.slot.startup-timeout")


def is_late_start(error: PystateError, stack_trace: str) -> bool:
    """Whether a start failed because the machine was busy, so that a retry may succeed.

    Args:
        error: The failure.
        stack_trace: Its stack trace, with that of Spark.
    """
    told = f"{error.message}\n{stack_trace}"
    return isinstance(error, StartTimeoutError) or any(words in told for words in _OF_SPARK)
