"""Test harnesses for functions, without Spark: process elements, end and roll back epochs, snapshot, rescale, restore.

They correspond to Flink's `OneInputStreamOperatorTestHarness` and `ProcessFunctionTestHarnesses`, and run the same code as a
job's slots. `docs/testing.md` explains them.
"""

from pystate.testing.harness import OperatorTestHarness
from pystate.testing.harnesses import (
    BroadcastOperatorTestHarness,
    KeyedOneInputOperatorTestHarness,
    OneInputOperatorTestHarness,
    ProcessFunctionTestHarnesses,
    TwoInputOperatorTestHarness,
    WindowOperatorTestHarness,
)
from pystate.testing.operator_snapshot import OperatorSnapshot
from pystate.testing.sink_harness import SinkTestHarness
from pystate.testing.source_harness import SourceTestHarness

__all__ = [
    "BroadcastOperatorTestHarness",
    "KeyedOneInputOperatorTestHarness",
    "OneInputOperatorTestHarness",
    "OperatorSnapshot",
    "OperatorTestHarness",
    "SinkTestHarness",
    "ProcessFunctionTestHarnesses",
    "SourceTestHarness",
    "TwoInputOperatorTestHarness",
    "WindowOperatorTestHarness",
]
