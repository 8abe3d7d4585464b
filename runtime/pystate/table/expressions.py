"""The Table API's expressions; Spark's are in `pyspark.sql.functions`."""

from __future__ import annotations

from typing import Any

from pystate.common.not_there import no_tables

_NAMES = frozenset(
    {
        "CURRENT_RANGE",
        "CURRENT_ROW",
        "UNBOUNDED_RANGE",
        "UNBOUNDED_ROW",
        "and_",
        "array",
        "atan2",
        "call",
        "call_sql",
        "col",
        "concat",
        "concat_ws",
        "convert_tz",
        "current_database",
        "current_date",
        "current_time",
        "current_timestamp",
        "current_watermark",
        "date_format",
        "descriptor",
        "e",
        "from_unixtime",
        "if_then_else",
        "json",
        "json_array",
        "json_array_agg",
        "json_object",
        "json_object_agg",
        "json_string",
        "lit",
        "local_time",
        "local_timestamp",
        "log",
        "map_",
        "negative",
        "not_",
        "null_of",
        "or_",
        "pi",
        "rand",
        "rand_integer",
        "range_",
        "row",
        "row_interval",
        "source_watermark",
        "temporal_overlaps",
        "timestamp_diff",
        "to_date",
        "to_timestamp",
        "to_timestamp_ltz",
        "unix_timestamp",
        "uuid",
        "with_columns",
        "without_columns",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = no_tables(name)
    return value
