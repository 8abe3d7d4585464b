"""Real objects without clocks and threads of their own."""

import sys
import time
import types

import pytest

from pystate.common import time as common_time
from pystate.runtime.checkpoint import coordinator_thread
from pystate.runtime.checkpoint.stats.file import StatisticsFile
from tests.model import real_coordinator, real_subtask  # noqa: F401 - with all modules that they need


@pytest.fixture
def no_time(monkeypatch):
    """Time stands still, and what the coordinator has done beside itself is done at once."""
    clocks = ("monotonic", "perf_counter", "time", "perf_counter_ns", "thread_time_ns")
    still = types.SimpleNamespace(**dict.fromkeys(clocks, lambda: 0))
    for name, module in list(sys.modules.items()):
        if name.startswith("pystate."):
            if getattr(module, "current_time_ms", None) is common_time.current_time_ms and module is not common_time:
                monkeypatch.setattr(module, "current_time_ms", lambda: 0)
            if name.startswith("pystate.runtime.engines.real_time.slot") and getattr(module, "time", None) is time:
                monkeypatch.setattr(module, "time", still)
    monkeypatch.setattr(coordinator_thread, "_beside", lambda run: run())
    monkeypatch.setattr(StatisticsFile, "changed", lambda _: None)
