"""The names of the Table API: they can be imported, but raise on use, with a hint to Spark SQL."""

from __future__ import annotations

from typing import Any

from pystate.common.not_there import no_tables
from pystate.common.row import Row, RowKind

_NAMES = frozenset(
    {
        "AggregateFunction",
        "AsyncScalarFunction",
        "ChangelogMode",
        "CompiledPlan",
        "DataTypes",
        "DataView",
        "EnvironmentSettings",
        "ExplainDetail",
        "Expression",
        "FormatDescriptor",
        "FunctionContext",
        "GroupWindowedTable",
        "GroupedTable",
        "ListView",
        "MapView",
        "Module",
        "ModuleEntry",
        "OverWindowedTable",
        "PlanReference",
        "ResultKind",
        "ScalarFunction",
        "Schema",
        "SqlDialect",
        "StatementSet",
        "StreamTableEnvironment",
        "Table",
        "TableAggregateFunction",
        "TableConfig",
        "TableDescriptor",
        "TableEnvironment",
        "TableFunction",
        "TablePipeline",
        "TableResult",
        "TableSchema",
        "UserDefinedType",
        "WindowGroupedTable",
    }
)

__all__ = ["Row", "RowKind"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = no_tables(name)
    return value
