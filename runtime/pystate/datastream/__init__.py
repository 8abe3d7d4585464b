"""What a job author imports: environment, streams, functions, state.

Source-compatible with `pyflink.datastream` where PyFlink has the name: `from pyflink.datastream import X` becomes
`from pystate.datastream import X`.
"""

from pystate.api.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    RuntimeContext,
)
from pystate.api.state import ValueState, ValueStateDescriptor
from pystate.datastream.data_stream import DataStream, DataStreamSink, KeyedStream
from pystate.datastream.environment import StreamExecutionEnvironment
from pystate.datastream.executor import JobExecutionResult

__all__ = [
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "JobExecutionResult",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "RuntimeContext",
    "StreamExecutionEnvironment",
    "ValueState",
    "ValueStateDescriptor",
]
