"""Test harnesses for functions, without Spark: process elements, end and roll back epochs, snapshot, rescale, restore.

They correspond to Flink's `OneInputStreamOperatorTestHarness` and `ProcessFunctionTestHarnesses`, and run the same code as a
job's slots. `docs/testing.md` explains them.
"""

from pystate.testing.golden_run import GoldenRun
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
from pystate.testing.program import Program
from pystate.testing.program_harness import ProgramHarness
from pystate.testing.sink_harness import SinkTestHarness
from pystate.testing.source_harness import SourceTestHarness
from pystate.testing.step_run import run_steps
from pystate.testing.steps import (
    Checkpoint,
    Elements,
    EpochEnd,
    EpochFailure,
    JobFailure,
    ProcessingTime,
    Watermark,
    without_failures,
)

__all__ = [
    "BroadcastOperatorTestHarness",
    "Checkpoint",
    "Elements",
    "EpochEnd",
    "EpochFailure",
    "GoldenRun",
    "JobFailure",
    "KeyedOneInputOperatorTestHarness",
    "OneInputOperatorTestHarness",
    "OperatorSnapshot",
    "OperatorTestHarness",
    "ProcessFunctionTestHarnesses",
    "ProcessingTime",
    "Program",
    "ProgramHarness",
    "SinkTestHarness",
    "SourceTestHarness",
    "TwoInputOperatorTestHarness",
    "Watermark",
    "WindowOperatorTestHarness",
    "run_steps",
    "without_failures",
]
