"""The public API of programs: environment, streams, functions, state.

Source-compatible with `pyflink.datastream`: `from pyflink.datastream import X` becomes
`from pystate.datastream import X`.
"""

from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from pystate.common.configuration.groups.execution_options import RuntimeExecutionMode
from pystate.common.job_execution_result import JobExecutionResult
from pystate.connectors.source import SourceFunction
from pystate.core.api.async_function import AsyncFunction
from pystate.core.api.async_retry import AsyncRetryPredicate, AsyncRetryStrategy
from pystate.core.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    OperatorStateStore,
    RawKeyedStateOutput,
    RawOperatorStateOutput,
)
from pystate.core.api.collected_results import CloseableIterator
from pystate.core.api.functions import (
    AggregateFunction,
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBatchProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStateStore,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
)
from pystate.core.api.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from pystate.core.api.keyed_batch import KeyedBatch
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from pystate.core.api.timer_service import TimeDomain, TimerService
from pystate.core.api.window.assigners import MergingWindowAssigner, WindowAssigner
from pystate.core.api.window.triggers import Trigger, TriggerResult
from pystate.core.api.window.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pystate.core.api.window.windows import CountWindow, GlobalWindow, TimeWindow, Window
from pystate.core.metrics.metric import Counter, Distribution, Gauge, Meter, Metric, MetricGroup
from pystate.datastream.async_data_stream import AsyncDataStream
from pystate.datastream.checkpoint_config import CheckpointConfig
from pystate.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from pystate.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from pystate.datastream.data_stream import DataStream, DataStreamSink, KeyedStream
from pystate.datastream.environment import StreamExecutionEnvironment
from pystate.datastream.interval_joins import IntervalJoin, IntervalJoined
from pystate.datastream.joined_streams import CoGroupedStreams, JoinedStreams
from pystate.datastream.preview import Preview
from pystate.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from pystate.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
)
from pystate.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AppendingState",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "Counter",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "Distribution",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "Gauge",
    "GlobalWindow",
    "HashMapStateBackend",
    "IntervalJoin",
    "IntervalJoined",
    "JobExecutionResult",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBatch",
    "KeyedBatchProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "KeyedStream",
    "ListCheckpointed",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MemorySize",
    "MemoryStateBackend",
    "MergingState",
    "MergingWindowAssigner",
    "Meter",
    "Metric",
    "MetricGroup",
    "OperatorStateStore",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "Preview",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "RawKeyedStateOutput",
    "RawOperatorStateOutput",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "ValueState",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
