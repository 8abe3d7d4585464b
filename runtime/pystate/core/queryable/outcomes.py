"""The consistency levels and outcomes of queries, which commands import without the types of state."""

from __future__ import annotations

from enum import Enum


class Consistency(str, Enum):
    """Which version of the state is read."""

    CHECKPOINTED = "checkpointed"
    """That of the last completed checkpoint: what the job would go back to."""
    LIVE = "live"
    """That of the last finished epoch: the newest, and a failure takes it back."""


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
