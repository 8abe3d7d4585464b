"""The options of how a failed job is restarted, in a group with Flink's class and constant names."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import (
    DurationType,
    EnumType,
    FloatType,
    IntegerType,
)


class RestartStrategyType(str, Enum):
    """How a failed job is restarted."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class RestartStrategyOptions:
    """What happens when a job fails."""

    RESTART_STRATEGY = ConfigOption[RestartStrategyType | None](
        "restart-strategy.type",
        EnumType(
            RestartStrategyType,
            {
                "off": "none",
                "disable": "none",
                "fixeddelay": "fixed-delay",
                "failurerate": "failure-rate",
                "exponentialdelay": "exponential-delay",
            },
        ),
        None,
        "none (also off, disable) never restarts, fixed-delay restarts a number of times, failure-rate as long as failures"
        " are rare, exponential-delay after longer and longer delays. Where it is not set, a job with checkpointing gets"
        " exponential-delay, and one without is not restarted.",
        ("restart-strategy",),
    )
    RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS = ConfigOption[int](
        "restart-strategy.fixed-delay.attempts",
        IntegerType(minimum=0),
        1,
        "How often fixed-delay restarts the job before it fails for good.",
    )
    RESTART_STRATEGY_FIXED_DELAY_DELAY = ConfigOption[int](
        "restart-strategy.fixed-delay.delay",
        DurationType(),
        1_000,
        "How long fixed-delay waits before it restarts the job.",
    )
    RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = ConfigOption[int](
        "restart-strategy.failure-rate.max-failures-per-interval",
        IntegerType(minimum=1),
        1,
        "How many restarts failure-rate allows in an interval before the job fails for good.",
    )
    RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL = ConfigOption[int](
        "restart-strategy.failure-rate.failure-rate-interval",
        DurationType(),
        60_000,
        "The interval in which failure-rate counts failures.",
    )
    RESTART_STRATEGY_FAILURE_RATE_DELAY = ConfigOption[int](
        "restart-strategy.failure-rate.delay",
        DurationType(),
        1_000,
        "How long failure-rate waits before it restarts the job.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF = ConfigOption[int](
        "restart-strategy.exponential-delay.initial-backoff",
        DurationType(),
        1_000,
        "How long exponential-delay waits before the first restart.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF = ConfigOption[int](
        "restart-strategy.exponential-delay.max-backoff",
        DurationType(),
        60_000,
        "The longest that exponential-delay waits before a restart.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = ConfigOption[float](
        "restart-strategy.exponential-delay.backoff-multiplier",
        FloatType(1, above=True),
        1.5,
        "How many times longer exponential-delay waits after each failure.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = ConfigOption[int](
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DurationType(),
        3_600_000,
        "How long a job must run without a failure for exponential-delay to start over with the initial backoff.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_JITTER_FACTOR = ConfigOption[float](
        "restart-strategy.exponential-delay.jitter-factor",
        FloatType(0, 1),
        0.1,
        "The share of its backoff by which exponential-delay varies it at random, so that many jobs don't restart at once.",
    )
    RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS = ConfigOption[int](
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        IntegerType(minimum=1),
        2**31 - 1,
        "How often exponential-delay restarts the job before it fails for good, unless the backoff was reset in between.",
    )
