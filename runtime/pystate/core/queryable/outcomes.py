"""The consistency levels and outcomes of queries, which commands import without the types of state."""

from __future__ import annotations

from enum import Enum


class Consistency(str, Enum):
    """Which version of the state is read."""

    CHECKPOINTED = "checkpointed"
    """The state at the last completed checkpoint, to which the job would return after a failure."""
    LIVE = "live"
    """The state after the last finished epoch: the newest, but undone by a failure."""


class QueryOutcome(str, Enum):
    """How a request, or one read of it, ended."""

    OK = "OK"
    UNKNOWN_JOB = "UNKNOWN_JOB"
    UNKNOWN_STATE = "UNKNOWN_STATE"
    NO_VALUE = "NO_VALUE"
    WRONG_KEY_TYPE = "WRONG_KEY_TYPE"
    WRONG_NAMESPACE = "WRONG_NAMESPACE"
    NOT_SERVING = "NOT_SERVING"
    """The job is restarting, or hasn't started yet. Ask again."""
    FORBIDDEN = "FORBIDDEN"
    VERSION_GONE = "VERSION_GONE"
    """The version of a cursor isn't kept any more. Start from the beginning."""
    TOO_LARGE = "TOO_LARGE"
    OVERLOADED = "OVERLOADED"
    BAD_REQUEST = "BAD_REQUEST"
