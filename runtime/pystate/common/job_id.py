"""The identity of a job."""

from __future__ import annotations


class JobID(str):
    """The id of a job: 32 hex digits, as the text it is written as everywhere."""

    __slots__ = ()
