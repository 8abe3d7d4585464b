"""The two kinds of time, with PyFlink's names."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """The time domain of a timer."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
