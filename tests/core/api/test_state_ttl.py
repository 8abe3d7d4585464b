"""The configuration of a time to live, as PyFlink has it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.common.time import Duration, Time
from pystate.core.api.state import MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.api.state_ttl import StateTtlConfig
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.datastream.state import StateTtlConfig as FromDatastream

UpdateType = StateTtlConfig.UpdateType
Visibility = StateTtlConfig.StateVisibility
Strategies = StateTtlConfig.CleanupStrategies


def test_defaults() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(10)).build()
    assert config.get_ttl() == Time.seconds(10)
    assert config.get_update_type() is UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is Visibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert incremental == Strategies.IncrementalCleanupStrategy(5, run_cleanup_for_every_record=False)
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb is not None
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(30)
    assert FromDatastream is StateTtlConfig


def test_all_that_can_be_set() -> None:
    config = (
        StateTtlConfig.new_builder(Duration.of_hours(1))
        .update_ttl_on_create_and_write()
        .update_ttl_on_read_and_write()
        .never_return_expired()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, run_cleanup_for_every_record=True)
        .cleanup_in_rocksdb_compact_filter(50, Duration.of_hours(2))
        .disable_cleanup_in_background()
        .set_ttl(Time.minutes(3))
        .build()
    )
    assert config.get_ttl() == Time.minutes(3)
    assert config.get_update_type() is UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is Visibility.ReturnExpiredIfNotCleanedUp
    cleanup = config.get_cleanup_strategies()
    assert not cleanup.is_cleanup_in_background()
    assert cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (7, True)
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb is not None
    assert rocksdb.get_query_time_after_num_entries() == 50
    assert rocksdb.get_periodic_compaction_time() == Duration.of_hours(2)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301
    assert hash(pickle.loads(pickle.dumps(config))) == hash(config)  # noqa: S301
    assert config != StateTtlConfig.new_builder(Time.minutes(3)).build()


def test_without_clean_up_in_the_background_there_is_none_that_was_not_chosen() -> None:
    cleanup = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build().get_cleanup_strategies()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


@pytest.mark.parametrize(
    ("ttl", "match"),
    [
        (Time.seconds(0), "must be positive, not 0 ms"),
        (Duration.of_millis(-5), "must be positive, not -5 ms"),
        (10, "a Time or a Duration, not 10"),
        (None, "a Time or a Duration, not None"),
    ],
)
def test_a_time_to_live_is_a_positive_time(ttl: Any, match: str) -> None:
    with pytest.raises(StateError, match=match):
        StateTtlConfig.new_builder(ttl).build()


def test_wrong_settings_are_refused() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    with pytest.raises(StateError, match="cleanup size .* 0 or more, not -1"):
        builder.cleanup_incrementally(-1, run_cleanup_for_every_record=False)
    with pytest.raises(StateError, match="number of entries .* 1 or more, not 0"):
        builder.cleanup_in_rocksdb_compact_filter(0)
    wrong: Any = "OnReadAndWrite"
    with pytest.raises(StateError, match="update type .*UpdateType, not 'OnReadAndWrite'"):
        builder.set_update_type(wrong).build()


def test_a_descriptor_takes_it() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(10)).build()
    plain, timed = (ValueStateDescriptor("s", Types.LONG()) for _ in range(2))
    timed.enable_time_to_live(config)
    assert plain.ttl_config is None
    assert timed.ttl_config is config
    assert plain != timed
    copy: StateDescriptor = pickle.loads(pickle.dumps(timed))  # noqa: S301
    assert copy == timed
    timed.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).set_update_type(UpdateType.Disabled).build())
    assert plain == timed
    wrong: Any = Time.seconds(10)
    with pytest.raises(StateError, match="'s' must be a StateTtlConfig"):
        plain.enable_time_to_live(wrong)


def test_operator_state_has_no_time_to_live() -> None:
    descriptor = MapStateDescriptor("rules")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    with pytest.raises(StateError, match="Operator state 'rules' can't have a time to live"):
        OperatorStateBackend().get_broadcast_state(descriptor)
