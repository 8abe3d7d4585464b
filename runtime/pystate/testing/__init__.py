"""Test harnesses for functions: process elements, end and roll back epochs, snapshot, repartition, restore, without Spark.

As Flink's `OneInputStreamOperatorTestHarness` and `ProcessFunctionTestHarnesses`. They run the code that runs in a job's
slots, so what passes here passes there. `docs/testing.md` explains them.
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
