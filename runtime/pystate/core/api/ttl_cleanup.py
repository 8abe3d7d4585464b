"""How expired values that are not accessed are removed, with PyFlink's names: `StateTtlConfig.CleanupStrategies`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pystate.common.errors import StateError
from pystate.common.time import Duration

COMPACTION_TIME = Duration.of_days(30)
"""Flink's default of the time between two compactions."""


class CleanupStrategies:
    """How expired values that are not accessed are removed.

    Args:
        strategies: Those that were chosen.
        is_cleanup_in_background: Whether the backend's default strategy applies if none was chosen.
    """

    class Strategies(Enum):
        """The available strategies."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """The base of the strategies."""

        def __eq__(self, other: object) -> bool:
            """Compare by class and fields."""
            return type(self) is type(other) and vars(self) == vars(other)

        def __hash__(self) -> int:
            """Hash class and fields."""
            return hash((type(self), *vars(self).values()))

    class EmptyCleanupStrategy(CleanupStrategy):
        """A strategy without parameters."""

    class IncrementalCleanupStrategy(CleanupStrategy):
        """The hashmap backend checks some entries on each access.

        Args:
            cleanup_size: How many.
            run_cleanup_for_every_record: Whether it also checks entries for each record.

        Raises:
            StateError: The size isn't a number, or is negative.
        """

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            self._cleanup_size = _count("cleanup size", cleanup_size, 0)
            self._run_cleanup_for_every_record = bool(run_cleanup_for_every_record)

        def get_cleanup_size(self) -> int:
            """Return how many entries are checked per access or record."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Return whether entries are also checked for each record."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """The rocksdb backend sweeps over its rows. It has Flink's name: there, RocksDB's compactions do it.

        Args:
            query_time_after_num_entries: The minimum number of rows checked per epoch.
            periodic_compaction_time: Not used: the sweep is periodic anyway.

        Raises:
            StateError: The number isn't an integer, or is below 1.
        """

        def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration = COMPACTION_TIME) -> None:
            self._query_time_after_num_entries = _count("number of entries", query_time_after_num_entries, 1)
            self._periodic_compaction_time = periodic_compaction_time

        def get_query_time_after_num_entries(self) -> int:
            """Return the minimum number of rows checked per epoch."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """Return what was given."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Return whether the backend's default strategy applies if none was chosen."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Return whether expired values are left out of snapshots."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Return what the hashmap backend does; None for nothing."""
        chosen: Any = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
        if chosen is None and self._is_cleanup_in_background:
            return self.IncrementalCleanupStrategy(5, run_cleanup_for_every_record=False)
        return chosen  # type: ignore[no-any-return]

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
        """Return what the rocksdb backend does; None for nothing."""
        chosen: Any = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
        if chosen is None and self._is_cleanup_in_background:
            return self.RocksdbCompactFilterCleanupStrategy(1000)
        return chosen  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        """Compare by strategies."""
        if not isinstance(other, CleanupStrategies):
            return NotImplemented
        same = self._is_cleanup_in_background == other._is_cleanup_in_background
        return same and self._strategies == other._strategies

    def __hash__(self) -> int:
        """Hash the strategies."""
        return hash((self._is_cleanup_in_background, frozenset(self._strategies.items())))


def _count(what: str, value: Any, least: int) -> int:
    if type(value) is not int or value < least:
        message = f"The {what} of a clean-up must be an int of {least} or more, not {value!r}."
        raise StateError(message)
    return value
