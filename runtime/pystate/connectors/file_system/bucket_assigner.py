"""Bucket assigners: which folder below the base path an element goes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.connectors.file_system.date_pattern import DatePattern, zone_of
from pystate.connectors.sink import SinkWriter


class BucketAssigner(ABC):
    """Determines the folder of an element; subclass it for your own."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: SinkWriter.Context) -> str:
        """Return the folder below the base path, such as "2024-05-01/de"; "" for the base path itself."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return an assigner that puts all files into the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Return an assigner that names folders by processing time.

        Args:
            format_str: A pattern of Java's DateTimeFormatter.
            timezone_id: Such as "Europe/Berlin", "UTC" or "GMT-08:00"; None for the machine's own.

        Raises:
            JobGraphError: There is no such time zone, or the pattern has a letter that isn't known here.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """Puts all files into the base path."""

    def get_bucket_id(self, element: Any, context: SinkWriter.Context) -> str:
        """Return the base path itself."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Names folders by processing time; see `BucketAssigner.date_time_bucket_assigner`."""

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self._pattern = DatePattern(format_str)
        zone_of(timezone_id)  # refused when the program is built
        self._timezone_id = timezone_id
        self._until = -1
        self._since = 0
        self._bucket = ""

    def get_bucket_id(self, element: Any, context: SinkWriter.Context) -> str:
        """Return the folder for the current time."""
        now = context.current_processing_time()
        if not self._since <= now < self._until:
            self._bucket = self._pattern.text(now, zone_of(self._timezone_id))
            self._since = now - now % self._pattern.step_ms
            self._until = self._since + self._pattern.step_ms
        return self._bucket
