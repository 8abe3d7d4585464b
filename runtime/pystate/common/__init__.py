"""Ground floor: options, types, time, key groups, errors. Imports nothing else of pystate.

What it exports is imported at its first use: who needs one small file of it, as the process that writes logs, gets no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.common.completable_future import CompletableFuture
    from pystate.common.configuration import Configuration
    from pystate.common.job_client import JobClient
    from pystate.common.job_execution_result import JobExecutionResult
    from pystate.common.job_id import JobID
    from pystate.common.job_status import JobStatus
    from pystate.common.row import Row, RowKind
    from pystate.common.time import Duration, Instant, Time
    from pystate.common.type_info import TypeInformation, Types
    from pystate.common.watermark_strategy import WatermarkStrategy

__all__ = [
    "CompletableFuture",
    "Configuration",
    "Duration",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "Row",
    "RowKind",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

_MODULES = {
    "CompletableFuture": "completable_future",
    "Configuration": "configuration",
    "Duration": "time",
    "Instant": "time",
    "JobClient": "job_client",
    "JobExecutionResult": "job_execution_result",
    "JobID": "job_id",
    "JobStatus": "job_status",
    "Row": "row",
    "RowKind": "row",
    "Time": "time",
    "TypeInformation": "type_info",
    "Types": "type_info",
    "WatermarkStrategy": "watermark_strategy",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
