"""Restart strategies: when a failed job is started again."""

import json

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, CorruptSnapshotError, PystateError, RestoreError
from pystate.common.text.plain_data import PlainDataError
from pystate.runtime.job_folder.restart_strategies import (
    ExponentialDelayRestartBackoffTimeStrategy,
    FailureRateRestartBackoffTimeStrategy,
    FixedDelayRestartBackoffTimeStrategy,
    NoRestartBackoffTimeStrategy,
    RestartBackoffTimeStrategy,
    is_fatal,
    restart_strategy,
)

HOUR = 3_600_000


def delays(strategy, times, **how):
    found = []
    for now in times:
        decision = strategy.after_failure(now, **how)
        found.append(decision.delay_ms)
        strategy = decision.strategy
    return found


def exponential(**changes):
    rules = {
        "initial_backoff_ms": 1000,
        "max_backoff_ms": 60_000,
        "backoff_multiplier": 2.0,
        "reset_backoff_threshold_ms": HOUR,
        "jitter_factor": 0.0,
        "attempts_before_reset_backoff": 100,
    }
    return ExponentialDelayRestartBackoffTimeStrategy(**(rules | changes))


def test_none_never_restarts():
    assert delays(NoRestartBackoffTimeStrategy(), [0, 10 * HOUR]) == [None, None]


def test_fixed_delay_counts_its_attempts():
    assert delays(FixedDelayRestartBackoffTimeStrategy(2, 70), [0, 1, 2, 3]) == [70, 70, None, None]


def test_failure_rate_fails_the_job_at_one_failure_too_many_within_the_interval():
    strategy = FailureRateRestartBackoffTimeStrategy(2, interval_ms=1000, delay_ms=5)
    assert delays(strategy, [0, 500, 1000]) == [5, 5, None]


def test_failure_rate_forgets_failures_that_are_older_than_the_interval():
    strategy = FailureRateRestartBackoffTimeStrategy(2, interval_ms=1000, delay_ms=5)
    assert delays(strategy, [0, 500, 1001, 1501, 1900]) == [5, 5, 5, 5, None]


def test_exponential_delay_grows_to_its_maximum():
    strategy = exponential(max_backoff_ms=5000)
    assert delays(strategy, range(0, 60_000, 10_000)) == [1000, 2000, 4000, 5000, 5000, 5000]


def test_exponential_delay_begins_anew_when_the_job_ran_well_for_long_enough():
    strategy = exponential()
    # restarts are due at 1000 and 4000; the threshold counts from there
    assert delays(strategy, [0, 2000, 4000 + HOUR - 1])[2] == 4000
    assert delays(strategy, [0, 2000, 4000 + HOUR])[2] == 1000


def test_exponential_delay_gives_up_after_its_attempts_unless_it_was_reset():
    strategy = exponential(attempts_before_reset_backoff=2)
    assert delays(strategy, [0, 10_000, 20_000, 30_000]) == [1000, 2000, None, None]
    assert delays(strategy, [0, 10_000, 20_000 + HOUR]) == [1000, 2000, 1000]


@pytest.mark.parametrize(("direction", "expected"), [(1, [1100, 2200, 4000]), (-1, [1000, 1800, 3600])])
def test_jitter_stays_between_the_initial_and_the_maximum_backoff(direction, expected):
    strategy = exponential(jitter_factor=0.1, max_backoff_ms=4000)
    assert delays(strategy, [0, 10_000, 20_000], jitter=lambda bound: direction * bound) == expected


def test_the_own_jitter_is_within_its_factor():
    strategy = exponential(initial_backoff_ms=1000, jitter_factor=0.5)
    found = {strategy.after_failure(0).strategy.after_failure(10_000).delay_ms for _ in range(200)}
    assert len(found) > 20
    assert min(found) >= 1000
    assert max(found) <= 3000


def test_a_backoff_beyond_all_numbers_is_the_maximum():
    assert exponential(backoff_multiplier=1e300, attempts=50).after_failure(0).delay_ms == 60_000


STRATEGIES = [
    NoRestartBackoffTimeStrategy(),
    FixedDelayRestartBackoffTimeStrategy(3, 50),
    FailureRateRestartBackoffTimeStrategy(3, 1000, 50),
    exponential(),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_written_down_with_what_it_has_counted(strategy):
    counted = strategy.after_failure(10).strategy.after_failure(5000).strategy
    assert RestartBackoffTimeStrategy.from_plain(json.loads(json.dumps(counted.to_plain()))) == counted
    assert counted.fresh() == strategy.fresh() == strategy


@pytest.mark.parametrize("plain", [{}, {"type": "sometimes"}, {"type": "fixed-delay", "delay_ms": 1}, None])
def test_what_is_no_strategy_is_refused(plain):
    with pytest.raises(PlainDataError, match="is no restart strategy"):
        RestartBackoffTimeStrategy.from_plain(plain)


CHECKPOINTED = {"execution.checkpointing.interval": "10 s"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NoRestartBackoffTimeStrategy()),
        (CHECKPOINTED, ExponentialDelayRestartBackoffTimeStrategy(1000, 60_000, 1.5, HOUR, 0.1, 2**31 - 1)),
        (CHECKPOINTED | {"restart-strategy": "off"}, NoRestartBackoffTimeStrategy()),
        ({"restart-strategy.type": "fixeddelay"}, FixedDelayRestartBackoffTimeStrategy(1, 1000)),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": "4",
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "2 s",
            },
            FailureRateRestartBackoffTimeStrategy(4, 300_000, 2000),
        ),
        (
            {
                "restart-strategy.type": "exponentialdelay",
                "restart-strategy.exponential-delay.initial-backoff": "200 ms",
                "restart-strategy.exponential-delay.max-backoff": "2 s",
                "restart-strategy.exponential-delay.backoff-multiplier": "3",
                "restart-strategy.exponential-delay.reset-backoff-threshold": "1 min",
                "restart-strategy.exponential-delay.jitter-factor": "0",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "7",
            },
            ExponentialDelayRestartBackoffTimeStrategy(200, 2000, 3.0, 60_000, 0.0, 7),
        ),
    ],
)
def test_options_choose_the_strategy(options, expected):
    assert restart_strategy(Configuration(options)) == expected


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("backoff-multiplier", "1", "a number above 1"),
        ("jitter-factor", "1.5", "a number from 0 to 1"),
        ("jitter-factor", "nan", "a number from 0 to 1"),
        ("attempts-before-reset-backoff", "0", "a whole number from 1"),
    ],
)
def test_values_out_of_range_are_refused(key, value, allowed):
    options = {"restart-strategy.type": "exponential-delay", f"restart-strategy.exponential-delay.{key}": value}
    with pytest.raises(ConfigurationError, match=allowed):
        restart_strategy(Configuration(options))


def test_an_initial_backoff_above_the_maximum_is_refused():
    options = {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.initial-backoff": "2 min"}
    with pytest.raises(ConfigurationError, match="120000 ms.* above the maximum backoff .60000 ms") as error:
        restart_strategy(Configuration(options))
    assert error.value.where == "restart-strategy.exponential-delay.initial-backoff"


def test_what_fails_at_every_start_is_fatal():
    assert is_fatal(RestoreError("no"))
    assert is_fatal(CorruptSnapshotError("no"))
    assert not is_fatal(PystateError("no"))
