"""How many examples Hypothesis tries. The rules are the same everywhere.

`fast`, in all runs unless `--hypothesis-profile` says otherwise, tries the same examples each time, so that a failure can be
repeated and none comes of luck. `thorough` tries others each time, and more; slow tests have it in all runs.

Hypothesis tries constants of the modules that are loaded, too. Which these are depends on the tests that a process of xdist
had before, so that `fast` does without: else a failure comes and goes with the number of processes.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

FAST, THOROUGH = "fast", "thorough"
AT_LENGTH = 40
"""How many times as many examples of a model the slow tests try."""


EXAMPLES_AT_LENGTH = 5
"""How many times as many examples of a test whose examples are dear, as those that start backends."""

in_short_and_at_length = pytest.mark.parametrize(
    "at_length", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["short", "at-length"]
)
"""For a test with `of_test`."""


def register() -> None:
    """Make both known, and `fast` what holds."""
    settings.register_profile(FAST, derandomize=True, deadline=None, database=None)
    settings.register_profile(THOROUGH, derandomize=False, deadline=None, max_examples=500, print_blob=True)
    settings.load_profile(FAST)
    found = providers._get_local_constants  # noqa: SLF001 - no setting says so
    nothing = providers.Constants()
    providers._get_local_constants = lambda: nothing if settings().derandomize else found()  # noqa: SLF001 - no setting says so


def of_model(steps: int, examples: int, *, slow: bool) -> settings:
    """Return the settings of a state machine: `examples` sequences of at most `steps` steps.

    Args:
        steps: At most, of each example.
        examples: Of the fast tests.
        slow: Whether it is the one at length: with `AT_LENGTH` times as many, others each time.
    """
    profile = settings.get_profile(THOROUGH) if slow else settings()
    return settings(
        profile,
        max_examples=examples * (AT_LENGTH if slow else 1),
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )


def of_test(examples: int, *, at_length: bool) -> settings:
    """Return the settings of a function: `examples` of them, the same each time; at length more, and others each time."""
    profile = settings.get_profile(THOROUGH if at_length else FAST)
    return settings(profile, max_examples=examples * (EXAMPLES_AT_LENGTH if at_length else 1))
