"""The base package: options, types, time, key groups, errors. Imports nothing else of pystate.

Exports are imported lazily, so that small processes, like the log process, load only what they use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.common.completable_future import CompletableFuture
    from pystate.common.config_options import ConfigOption, ConfigOptions
    from pystate.common.configuration.configuration import Configuration
    from pystate.common.execution_config import ExecutionConfig
    from pystate.common.input_dependency_constraint import InputDependencyConstraint
    from pystate.common.job_client import JobClient
    from pystate.common.job_execution_result import JobExecutionResult
    from pystate.common.job_id import JobID
    from pystate.common.job_status import JobStatus
    from pystate.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
    from pystate.common.row import Row, RowKind
    from pystate.common.serialization import (
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from pystate.common.serializer import TypeSerializer
    from pystate.common.time import Duration, Instant, Time
    from pystate.common.type_info import TypeInformation, Types
    from pystate.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper, WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

_MODULES = {
    "AssignerWithPeriodicWatermarksWrapper": "watermark_strategy",
    "ByteArraySchema": "serialization",
    "CompletableFuture": "completable_future",
    "ConfigOption": "config_options",
    "ConfigOptions": "config_options",
    "Configuration": "configuration",
    "DeserializationSchema": "serialization",
    "Duration": "time",
    "Encoder": "serialization",
    "ExecutionConfig": "execution_config",
    "InputDependencyConstraint": "input_dependency_constraint",
    "Instant": "time",
    "JobClient": "job_client",
    "JobExecutionResult": "job_execution_result",
    "JobID": "job_id",
    "JobStatus": "job_status",
    "RestartStrategies": "restart_strategy",
    "RestartStrategyConfiguration": "restart_strategy",
    "Row": "row",
    "RowKind": "row",
    "SerializationSchema": "serialization",
    "SimpleStringSchema": "serialization",
    "Time": "time",
    "TypeInformation": "type_info",
    "TypeSerializer": "serializer",
    "Types": "type_info",
    "WatermarkStrategy": "watermark_strategy",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
