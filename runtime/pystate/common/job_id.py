"""The identity of a job."""

from __future__ import annotations


class JobID(str):
    """The id of a job: a string of 32 hex digits."""

    __slots__ = ()
