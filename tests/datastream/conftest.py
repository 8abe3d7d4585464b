"""Programs without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from tests.datastream.no_executor import NoExecutor


@pytest.fixture
def env() -> Iterator[StreamExecutionEnvironment]:
    """An environment whose programs are built and never run."""
    register_executor(NoExecutor())
    yield StreamExecutionEnvironment.get_execution_environment()
    register_executor(None)
