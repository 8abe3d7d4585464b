"""The engines that jobs of tests run on."""

from __future__ import annotations

import pytest

from pystate.common.configuration.groups.execution_options import ExecutionEngine

MICRO_BATCH = ExecutionEngine.MICRO_BATCH.value
REAL_TIME = ExecutionEngine.REAL_TIME.value

on_both_engines = pytest.mark.parametrize("engine", [MICRO_BATCH, REAL_TIME], indirect=True)
"""For a test that is slow on either engine, or short on both."""

slowly_on_real_time = pytest.mark.parametrize(
    "engine", [MICRO_BATCH, pytest.param(REAL_TIME, marks=pytest.mark.slow)], indirect=True
)
"""For a test that runs at each commit on the micro-batch engine."""

on_micro_batch = pytest.mark.parametrize("engine", [MICRO_BATCH], indirect=True)
"""For a test of what the real-time engine hasn't: epochs, sources of Spark's, BATCH mode."""
