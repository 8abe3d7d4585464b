"""The Table API's functions; Spark's are in `pyspark.sql.functions`."""

from __future__ import annotations

from typing import Any

from pystate.common.not_there import no_tables

_NAMES = frozenset(
    {
        "AggregateFunction",
        "AsyncScalarFunction",
        "FunctionContext",
        "ScalarFunction",
        "TableAggregateFunction",
        "TableFunction",
        "udaf",
        "udf",
        "udtaf",
        "udtf",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = no_tables(name)
    return value
