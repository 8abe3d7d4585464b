"""Reads and writes savepoints as Spark DataFrames, without a job: Flink's State Processor API.

`docs/state-processor.md` explains it.
"""

from pystate.state_processor.bootstrap import KeyedOperatorTransformation, OneInputTransformation, OperatorTransformation
from pystate.state_processor.processor_functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    StateBootstrapFunction,
    WindowReaderFunction,
)
from pystate.state_processor.savepoint_reader import SavepointReader
from pystate.state_processor.savepoint_writer import SavepointWriter
from pystate.state_processor.state_frames import StateColumn
from pystate.state_processor.window_reader import WindowSavepointReader

__all__ = [
    "BroadcastStateBootstrapFunction",
    "KeyedOperatorTransformation",
    "KeyedStateBootstrapFunction",
    "KeyedStateReaderFunction",
    "OneInputTransformation",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "StateColumn",
    "WindowReaderFunction",
    "WindowSavepointReader",
]
