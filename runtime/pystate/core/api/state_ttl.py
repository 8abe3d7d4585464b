"""State TTL: the configuration, with PyFlink's names."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

from pystate.common.errors import StateError
from pystate.common.time import Duration, Time
from pystate.core.api import ttl_cleanup


class StateTtlConfig:
    """The time to live of a keyed state; `StateDescriptor.enable_time_to_live` takes it. Make one with `new_builder`.

    Args:
        update_type: Which accesses extend a value's life.
        state_visibility: Whether a value that has expired may still be returned.
        ttl_time_characteristic: The kind of time: always processing time.
        ttl: How long a value lives after its last access.
        cleanup_strategies: How expired values that are not accessed are removed.

    Raises:
        StateError: The time to live isn't positive, or an argument is of the wrong type.
    """

    class UpdateType(Enum):
        """Which accesses extend a value's life."""

        Disabled = 0  # values live for ever, as without a configuration
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether a value that has expired may still be returned."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The kind of time that is used."""

        ProcessingTime = 0

    CleanupStrategies: TypeAlias = ttl_cleanup.CleanupStrategies

    class Builder:
        """Builds a `StateTtlConfig`; every method but `build` returns the builder.

        Args:
            ttl: See `set_ttl`.
        """

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set which accesses extend a value's life."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Extend a value's life when it is written (the default)."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Extend a value's life when it is written or read."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Set whether a value that has expired may still be returned."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Return an expired value if it isn't removed yet; the access removes it."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Never return a value that has expired (the default)."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set the kind of time."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Use processing time, the only kind supported."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired values out of full snapshots; the running state keeps them."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> StateTtlConfig.Builder:
            """Check some entries of the state on each access; for the hashmap backend only.

            Args:
                cleanup_size: The number of entries; 5 by default.
                run_cleanup_for_every_record: Whether entries are also checked for each record.

            Raises:
                StateError: The size isn't a number, or is negative.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = strategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Duration = ttl_cleanup.COMPACTION_TIME
        ) -> StateTtlConfig.Builder:
            """Sweep over the rows of the state, a part of them at each end of an epoch; for the rocksdb backend only.

            Args:
                query_time_after_num_entries: How many rows an epoch looks at, at least; an epoch that changes many rows
                    looks at twice as many as it changes.
                periodic_compaction_time: Accepted for Flink's sake: the sweep comes round by itself.

            Raises:
                StateError: The number is none, or below 1.
            """
            strategies = StateTtlConfig.CleanupStrategies
            strategy = strategies.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Disable the backend's default clean-up; explicitly chosen strategies stay."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            """Set how long a value lives after its last access."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration.

            Raises:
                StateError: See `StateTtlConfig`.
            """
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        _check_type("update type", update_type, StateTtlConfig.UpdateType)
        _check_type("state visibility", state_visibility, StateTtlConfig.StateVisibility)
        _check_type("time characteristic", ttl_time_characteristic, StateTtlConfig.TtlTimeCharacteristic)
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = Time.milliseconds(_millis(ttl))
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> Builder:
        """Return a builder of a configuration with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return which accesses extend a value's life."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return whether a value that has expired may still be returned."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return how long a value lives after its last access."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return the kind of time."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether values expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """Return how expired values that are not accessed are removed."""
        return self._cleanup_strategies

    def _fields(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())

    def __eq__(self, other: object) -> bool:
        """Compare by all that can be set."""
        return self._fields() == other._fields() if isinstance(other, StateTtlConfig) else NotImplemented

    def __hash__(self) -> int:
        """Hash what can be set."""
        return hash(self._fields())

    def __repr__(self) -> str:
        """Return a text with update type, visibility and time to live."""
        return (
            f"StateTtlConfig<update_type={self._update_type.name}, state_visibility={self._state_visibility.name}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic.name}, ttl={self._ttl.to_milliseconds()} ms>"
        )


def _millis(ttl: Any) -> int:
    if isinstance(ttl, Time):
        millis = ttl.to_milliseconds()
    elif isinstance(ttl, Duration):
        millis = ttl.to_millis()
    else:
        message = f"A time to live is a Time or a Duration, not {ttl!r}."
        raise StateError(message, hint="write Time.hours(1), or Duration.of_hours(1)")
    if millis <= 0:
        message = f"A time to live must be positive, not {millis} ms."
        raise StateError(message, hint="leave enable_time_to_live out for values that live for ever")
    return millis


def _check_type(what: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        message = f"The {what} of a time to live must be a StateTtlConfig.{kind.__name__}, not {value!r}."
        raise StateError(message)
