"""Timestamp assignment and watermark generation (PyFlink's WatermarkStrategy)."""

from __future__ import annotations

import calendar
import datetime
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.not_there import not_there
from pystate.common.time import Duration

__all__ = ["NO_TIMESTAMP", "TimestampAssigner", "WatermarkStrategy"]

NO_TIMESTAMP = -(1 << 63)
"""The timestamp passed to an assigner for an element without one: Flink's `Long.MIN_VALUE`."""

_LOG = logging.getLogger(__name__)


class TimestampAssigner(ABC):
    """Assigns event timestamps to elements."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the time of an element, ms since 1970.

        Args:
            value: The element.
            record_timestamp: The time it has already; `NO_TIMESTAMP` where it has none.
        """


class ColumnTimestampAssigner(TimestampAssigner):
    """Assigns the timestamp of a row from one of its columns.

    Args:
        column: A timestamp, or ms since 1970.
    """

    def __init__(self, column: str) -> None:
        self._column = column

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the column of a row as ms since 1970.

        Raises:
            RecordError: It holds no time.
        """
        del record_timestamp
        time = value[self._column]
        if isinstance(time, datetime.datetime):  # in UTC, without a zone
            return calendar.timegm(time.utctimetuple()) * 1000 + time.microsecond // 1000
        if type(time) is not int:
            message = f"The column {self._column!r} holds {time!r}, which is no time."
            raise RecordError(message, hint="leave such rows out, or give another column as event_time")
        return time


@dataclass(frozen=True)
class WatermarkStrategy:
    """A watermark strategy, created by its static methods; each `with_...` method returns a new strategy.

    Attributes:
        max_out_of_orderness_ms: How much older than the newest one an element may be; None if there are no watermarks.
        timestamp_assigner: Returns the time of an element, from it and the time it has; None for the time it has.
        idle_timeout_ms: The time after which a channel without elements is idle; None for never.
    """

    max_out_of_orderness_ms: int | None = None
    timestamp_assigner: Callable[[Any, int], int] | None = None
    idle_timeout_ms: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return the strategy for a stream with ascending timestamps."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return the strategy for a stream whose elements are out of order by at most a length of time.

        Raises:
            JobGraphError: It isn't a length of time.
        """
        return WatermarkStrategy(_milliseconds(max_out_of_orderness, "for_bounded_out_of_orderness", least=0))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy without watermarks: event time stands still until the end of the input."""
        return WatermarkStrategy()

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return this strategy with a timestamp assigner.

        Raises:
            JobGraphError: It is none.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            message = f"with_timestamp_assigner() takes a TimestampAssigner, not {timestamp_assigner!r}."
            raise JobGraphError(message)
        return replace(self, timestamp_assigner=timestamp_assigner.extract_timestamp)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return this strategy with an idle timeout, after which channels without elements don't hold back watermarks.

        Raises:
            JobGraphError: It isn't a positive length of time.
        """
        return replace(self, idle_timeout_ms=_milliseconds(idle_timeout, "with_idleness", least=1))

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """Return this strategy unchanged: sources are read epoch by epoch, so none runs ahead of the others."""
        del max_allowed_watermark_drift, update_interval
        _LOG.warning("with_watermark_alignment(%r) has no effect: all sources are read in the same epochs.", watermark_group)
        return self


def _milliseconds(duration: Any, what: str, least: int) -> int:
    if not isinstance(duration, Duration) or duration.to_millis() < least:
        message = f"{what}() takes a Duration of {least} ms or more, not {duration!r}."
        raise JobGraphError(message, hint="Duration.of_seconds(5)")
    return duration.to_millis()


AssignerWithPeriodicWatermarksWrapper = not_there(
    "AssignerWithPeriodicWatermarksWrapper", "it wraps a Java class of Flink's.", "use WatermarkStrategy"
)
