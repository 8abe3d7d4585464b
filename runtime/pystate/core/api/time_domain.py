"""The two kinds of time, with PyFlink's names."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """By which time a timer fires."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
